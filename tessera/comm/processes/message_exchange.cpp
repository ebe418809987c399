#include "tessera/comm/processes/message_exchange.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/base/message_size.h"
#include "tessera/comm/process_group_impl.h"

namespace tessera {
namespace {

int64_t small_bytes(const std::vector<Piece>& pieces) {
  int64_t bytes = 0;
  for (const Piece& piece : pieces) {
    if (piece.bytes < kPieceOfItsOwn) bytes += piece.bytes;
  }
  return bytes;
}

bool one_message(const std::vector<Piece>& pieces) { return pieces.size() == 1; }

at::Tensor buffer_of(int64_t bytes) { return at::empty({bytes}, at::kByte); }

std::byte* data_of(const at::Tensor& buffer) {
  return static_cast<std::byte*>(buffer.mutable_data_ptr());
}

}  // namespace

MessageExchange::MessageExchange(std::shared_ptr<MessageWorld> world, int32_t tag, std::string what)
    : world_(std::move(world)), tag_(tag), what_(std::move(what)) {}

// The messages of `pieces`: the large ones as they are, then the small ones in one buffer.
std::vector<Piece> MessageExchange::packed(const std::vector<Piece>& pieces) {
  const int64_t small = small_bytes(pieces);
  if (one_message(pieces) || small == 0) return pieces;
  const at::Tensor buffer = buffer_of(small);
  std::vector<Piece> messages;
  std::byte* at = data_of(buffer);
  for (const Piece& piece : pieces) {
    if (piece.bytes >= kPieceOfItsOwn) {
      messages.push_back(piece);
    } else if (piece.bytes > 0) {
      std::memcpy(at, piece.data, static_cast<size_t>(piece.bytes));
      at += piece.bytes;
    }
  }
  messages.push_back({data_of(buffer), small});
  keep({buffer});
  return messages;
}

void MessageExchange::send_to_all(const std::vector<int>& peers, const std::vector<Piece>& pieces) {
  const std::vector<Piece> messages = packed(pieces);
  for (int peer : peers) {
    for (const Piece& message : messages) {
      if (message.bytes == 0) continue;
      sends_.push_back({peer, world_->transport->send(message.data, message.bytes, peer, tag_)});
    }
  }
}

void MessageExchange::send(int peer, const std::vector<Piece>& pieces) {
  send_to_all({peer}, pieces);
}

void MessageExchange::recv(int peer, std::vector<Piece> pieces) {
  const int64_t small = small_bytes(pieces);
  const bool direct = one_message(pieces) || small == 0;
  for (const Piece& piece : pieces) {
    if (piece.bytes == 0 || (!direct && piece.bytes < kPieceOfItsOwn)) continue;
    receives_.push_back({peer, world_->transport->recv(piece.data, piece.bytes, peer, tag_)});
  }
  if (direct) return;
  at::Tensor buffer = buffer_of(small);
  receives_.push_back({peer, world_->transport->recv(data_of(buffer), small, peer, tag_)});
  unpacks_.push_back({std::move(buffer), std::move(pieces)});
}

void MessageExchange::wait_all(std::vector<Pending>& pending,
                               MessageTransport::Clock::time_point deadline, RankPage* page) {
  RankPage::Wait marked(page, what_);
  std::vector<int> silent;
  std::string why;
  bool timed_out = false;
  for (Pending& item : pending) {
    if (silent.empty()) marked.on(item.peer);  // what the rank failed in stays
    try {
      item.request->wait(deadline);
    } catch (const MessageTransport::Failure& failure) {
      // After the first failure the links are closed: what has arrived still succeeds, all else
      // fails at once.
      if (why.empty()) {
        why = failure.what();
        timed_out = failure.timed_out;
      }
      silent.push_back(item.peer);
    }
  }
  if (silent.empty()) return marked.done();
  std::sort(silent.begin(), silent.end());
  silent.erase(std::unique(silent.begin(), silent.end()), silent.end());
  if (timed_out) {
    throw CommError(what_ + ": no answer within " + seconds_text(world_->options.timeout) +
                    " from " + join_ranks(silent));
  }
  throw CommError(what_ + ": lost " + join_ranks(silent) + " (" + why + ")");
}

void MessageExchange::wait() { wait(world_->page.get()); }

void MessageExchange::wait_aside() { wait(nullptr); }

void MessageExchange::wait(RankPage* page) {
  const auto deadline = MessageTransport::Clock::now() + world_->options.timeout;
  wait_all(receives_, deadline, page);
  for (const Unpack& unpack : unpacks_) {
    const std::byte* at = data_of(unpack.buffer);
    for (const Piece& piece : unpack.pieces) {
      if (piece.bytes >= kPieceOfItsOwn || piece.bytes == 0) continue;
      std::memcpy(piece.data, at, static_cast<size_t>(piece.bytes));
      at += piece.bytes;
    }
  }
  unpacks_.clear();
  if (finish_) finish_();
  finish_ = nullptr;
  wait_all(sends_, deadline, page);
  kept_.clear();
}

bool MessageExchange::done() const {
  const auto is_done = [](const Pending& item) { return item.request->done(); };
  return std::all_of(receives_.begin(), receives_.end(), is_done) &&
         std::all_of(sends_.begin(), sends_.end(), is_done);
}

void MessageExchange::abort() {
  for (Pending& item : receives_) item.request->abort();
  for (Pending& item : sends_) item.request->abort();
}

}  // namespace tessera
