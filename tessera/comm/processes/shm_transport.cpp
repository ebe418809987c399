// Messages through rings in shared memory. A message is a header and its bytes, in the order in
// which its sender posted it; a receiver copies them straight to where they are wanted, or keeps
// them until somebody asks. There is no thread: whoever waits moves all that can be moved.

#include "tessera/comm/processes/shm_transport.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "tessera/comm/processes/shm_segment.h"

namespace tessera {
namespace {

using Clock = MessageTransport::Clock;

// How often a rank that waits looks whether its peer is still there.
constexpr std::chrono::milliseconds kLookAtPeer{250};

struct Header {
  int64_t bytes;
  int64_t tag;
};

// A message as one of its ends sees it. All fields belong to the transport's lock.
struct Transfer {
  std::byte* data = nullptr;  // nullptr: nobody wants the bytes any more
  int64_t bytes = 0;
  int64_t moved = 0;
  int32_t tag = 0;
  bool header_moved = false;
  bool done = false;
  bool aborted = false;
  std::string error;
};
using TransferPtr = std::shared_ptr<Transfer>;

// A message that came before it was asked for.
struct Early {
  std::unique_ptr<std::byte[]> data;
  int64_t bytes = 0;
  int64_t moved = 0;
  TransferPtr receiver;  // asked for while it was coming
};
using EarlyPtr = std::shared_ptr<Early>;

struct Peer {
  std::deque<TransferPtr> out;
  std::map<int32_t, std::deque<TransferPtr>> wanted;  // by tag
  std::map<int32_t, std::deque<EarlyPtr>> early;
  bool receiving = false;  // a message is half in
  Header header{};
  TransferPtr target;  // where it goes: one of the two
  EarlyPtr early_target;
};

void copy_in(std::byte* ring, uint64_t size, uint64_t at, const std::byte* from, uint64_t bytes) {
  const uint64_t begin = at % size;
  const uint64_t first = std::min(bytes, size - begin);
  std::memcpy(ring + begin, from, first);
  if (bytes > first) std::memcpy(ring, from + first, bytes - first);
}

void copy_out(std::byte* to, const std::byte* ring, uint64_t size, uint64_t at, uint64_t bytes) {
  const uint64_t begin = at % size;
  const uint64_t first = std::min(bytes, size - begin);
  std::memcpy(to, ring + begin, first);
  if (bytes > first) std::memcpy(to + first, ring, bytes - first);
}

class ShmTransport : public MessageTransport {
 public:
  ShmTransport(std::shared_ptr<MeetingPoint> meeting, std::unique_ptr<ShmSegment> segment)
      : meeting_(std::move(meeting)),
        segment_(std::move(segment)),
        rank_(meeting_->options().rank),
        peers_(static_cast<size_t>(meeting_->options().world)) {}

  std::unique_ptr<Request> send(const std::byte* data, int64_t bytes, int world_rank,
                                int32_t tag) override {
    auto transfer = make_transfer(const_cast<std::byte*>(data), bytes, tag);
    std::lock_guard lock(mutex_);
    peers_[world_rank].out.push_back(transfer);
    if (push(world_rank)) segment_->bell(world_rank).ring();
    return std::make_unique<ShmRequest>(*this, world_rank, std::move(transfer));
  }

  std::unique_ptr<Request> recv(std::byte* data, int64_t bytes, int world_rank,
                                int32_t tag) override {
    auto transfer = make_transfer(data, bytes, tag);
    std::lock_guard lock(mutex_);
    Peer& peer = peers_[world_rank];
    const auto queue = peer.early.find(tag);
    if (queue == peer.early.end()) {
      peer.wanted[tag].push_back(transfer);
    } else {
      const EarlyPtr early = queue->second.front();
      queue->second.pop_front();
      if (queue->second.empty()) peer.early.erase(queue);
      early->receiver = transfer;
      if (early->moved == early->bytes) deliver(*early);
    }
    return std::make_unique<ShmRequest>(*this, world_rank, std::move(transfer));
  }

 private:
  class ShmRequest : public Request {
   public:
    ShmRequest(ShmTransport& transport, int peer, TransferPtr transfer)
        : transport_(transport), peer_(peer), transfer_(std::move(transfer)) {}
    // The memory is no longer ours to touch.
    ~ShmRequest() override {
      std::lock_guard lock(transport_.mutex_);
      if (!transfer_->done) transfer_->data = nullptr;
    }
    void wait(Clock::time_point deadline) override { transport_.wait(*transfer_, peer_, deadline); }
    bool done() override {
      std::lock_guard lock(transport_.mutex_);
      return transfer_->done;
    }
    void abort() override {
      {
        std::lock_guard lock(transport_.mutex_);
        transfer_->aborted = true;
      }
      transport_.segment_->bell(transport_.rank_).ring();
    }

   private:
    ShmTransport& transport_;
    const int peer_;
    const TransferPtr transfer_;
  };

  static TransferPtr make_transfer(std::byte* data, int64_t bytes, int32_t tag) {
    auto transfer = std::make_shared<Transfer>();
    transfer->data = data;
    transfer->bytes = bytes;
    transfer->tag = tag;
    return transfer;
  }

  void wait(Transfer& transfer, int peer, Clock::time_point deadline) {
    SharedDoorbell& bell = segment_->bell(rank_);
    Clock::time_point next_look = Clock::now() + kLookAtPeer;
    bool gone = false;
    for (;;) {
      const uint32_t seen = bell.value();
      {
        std::lock_guard lock(mutex_);
        if (!transfer.done && progress() && waiting_ > 0) bell.ring();  // for our other threads
        if (transfer.done) break;
        if (transfer.aborted) throw Failure("given up", false);
        // What the peer wrote before it ended has been read by now.
        if (gone) throw Failure("the process has ended", false);
        ++waiting_;
      }
      bell.sleep(seen, std::min(deadline, next_look));
      {
        std::lock_guard lock(mutex_);
        --waiting_;
      }
      const auto now = Clock::now();
      if (now >= next_look) {
        gone = !segment_->alive(peer);
        next_look = now + kLookAtPeer;
      }
      if (now >= deadline && !gone) throw Failure("no answer", true);
    }
    if (!transfer.error.empty()) throw Failure(transfer.error, false);
  }

  // Moves what can be moved, under the lock. True if a transfer was completed.
  bool progress() {
    completed_ = false;
    for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
      if (peer == rank_) continue;
      const bool pushed = push(peer);
      if (pull(peer) | pushed) segment_->bell(peer).ring();
    }
    return completed_;
  }

  // To `peer`. True if it has something to read.
  bool push(int peer) {
    std::deque<TransferPtr>& out = peers_[peer].out;
    if (out.empty()) return false;
    ShmChannel& channel = segment_->channel(rank_, peer);
    std::byte* ring = segment_->ring(rank_, peer);
    const uint64_t size = segment_->ring_bytes();
    uint64_t written = channel.written.load(std::memory_order_relaxed);
    const uint64_t before = written;
    while (!out.empty()) {
      Transfer& transfer = *out.front();
      uint64_t room = size - (written - channel.read.load(std::memory_order_acquire));
      const bool wants_header = !transfer.header_moved;
      if (room < (wants_header ? sizeof(Header) : 1)) {
        // Full: the reader shall ring, unless it has read in the meantime.
        channel.sender_waits.store(1, std::memory_order_seq_cst);
        room = size - (written - channel.read.load(std::memory_order_seq_cst));
        if (room < (wants_header ? sizeof(Header) : 1)) break;
      }
      if (transfer.data == nullptr) {
        if (transfer.header_moved) break;  // half sent and given up: the link is dead
        out.pop_front();
        continue;
      }
      if (wants_header) {
        const Header header{transfer.bytes, transfer.tag};
        copy_in(ring, size, written, reinterpret_cast<const std::byte*>(&header), sizeof(header));
        written += sizeof(header);
        room -= sizeof(header);
        transfer.header_moved = true;
      }
      const uint64_t chunk = std::min(room, static_cast<uint64_t>(transfer.bytes - transfer.moved));
      copy_in(ring, size, written, transfer.data + transfer.moved, chunk);
      written += chunk;
      transfer.moved += static_cast<int64_t>(chunk);
      channel.written.store(written, std::memory_order_release);
      if (transfer.moved == transfer.bytes) {
        complete(transfer);
        out.pop_front();
      }
    }
    return written != before;
  }

  // From `peer`. True if it waits for the room.
  bool pull(int from) {
    Peer& peer = peers_[from];
    ShmChannel& channel = segment_->channel(from, rank_);
    const std::byte* ring = segment_->ring(from, rank_);
    const uint64_t size = segment_->ring_bytes();
    uint64_t read = channel.read.load(std::memory_order_relaxed);
    const uint64_t before = read;
    for (;;) {
      uint64_t there = channel.written.load(std::memory_order_acquire) - read;
      if (!peer.receiving) {
        if (there < sizeof(Header)) break;
        copy_out(reinterpret_cast<std::byte*>(&peer.header), ring, size, read, sizeof(Header));
        read += sizeof(Header);
        there -= sizeof(Header);
        begin_message(peer);
      }
      const int64_t moved = peer.target ? peer.target->moved : peer.early_target->moved;
      const auto left = static_cast<uint64_t>(peer.header.bytes - moved);
      const uint64_t chunk = std::min(there, left);
      std::byte* to = peer.target ? peer.target->data : peer.early_target->data.get();
      if (to != nullptr && chunk > 0) copy_out(to + moved, ring, size, read, chunk);
      read += chunk;
      (peer.target ? peer.target->moved : peer.early_target->moved) += static_cast<int64_t>(chunk);
      channel.read.store(read, std::memory_order_seq_cst);
      if (chunk < left) break;
      end_message(peer);
    }
    channel.read.store(read, std::memory_order_seq_cst);
    return read != before && channel.sender_waits.load(std::memory_order_seq_cst) != 0 &&
           channel.sender_waits.exchange(0) != 0;
  }

  void begin_message(Peer& peer) {
    const auto tag = static_cast<int32_t>(peer.header.tag);
    peer.receiving = true;
    const auto queue = peer.wanted.find(tag);
    while (queue != peer.wanted.end() && !queue->second.empty() && !peer.target) {
      TransferPtr front = std::move(queue->second.front());
      queue->second.pop_front();
      if (front->data == nullptr) continue;  // given up
      if (front->bytes == peer.header.bytes) {
        peer.target = std::move(front);
      } else {
        front->error = "a message of " + std::to_string(peer.header.bytes) + " bytes where " +
                       std::to_string(front->bytes) + " were expected";
        complete(*front);
        break;
      }
    }
    if (queue != peer.wanted.end() && queue->second.empty()) peer.wanted.erase(queue);
    if (peer.target) return;
    peer.early_target = std::make_shared<Early>();
    peer.early_target->bytes = peer.header.bytes;
    peer.early_target->data.reset(new std::byte[static_cast<size_t>(peer.header.bytes)]);
    peer.early[tag].push_back(peer.early_target);
  }

  void end_message(Peer& peer) {
    if (peer.target) {
      complete(*peer.target);
    } else if (peer.early_target->receiver) {
      deliver(*peer.early_target);
    }
    peer.receiving = false;
    peer.target.reset();
    peer.early_target.reset();
  }

  void deliver(Early& early) {
    Transfer& receiver = *early.receiver;
    if (receiver.bytes != early.bytes) {
      receiver.error = "a message of " + std::to_string(early.bytes) + " bytes where " +
                       std::to_string(receiver.bytes) + " were expected";
    } else if (receiver.data != nullptr) {
      std::memcpy(receiver.data, early.data.get(), static_cast<size_t>(early.bytes));
    }
    complete(receiver);
  }

  void complete(Transfer& transfer) {
    transfer.done = true;
    completed_ = true;
  }

  const std::shared_ptr<MeetingPoint> meeting_;  // its server may be in this process
  const std::unique_ptr<ShmSegment> segment_;
  const int rank_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
  int waiting_ = 0;  // threads of ours that sleep
  bool completed_ = false;
};

bool all_equal(const std::vector<std::string>& texts, const std::string& expected) {
  return std::ranges::all_of(texts, [&](const std::string& text) { return text == expected; });
}

}  // namespace

std::unique_ptr<MessageTransport> connect_shared_memory(std::shared_ptr<MeetingPoint> meeting) {
  const int rank = meeting->options().rank;
  const int world = meeting->options().world;
  const std::string host = host_identity();
  if (!all_equal(meeting->exchange("host", host), host)) return nullptr;

  std::unique_ptr<ShmSegment> segment;
  if (rank == 0) {
    segment = ShmSegment::create(rank, world);
    meeting->set("segment", segment ? segment->handle() : "none");
  } else {
    segment = ShmSegment::open(meeting->get("segment"), rank, world);
  }
  if (!all_equal(meeting->exchange("segments", segment ? "open" : "none"), "open")) return nullptr;
  return std::make_unique<ShmTransport>(std::move(meeting), std::move(segment));
}

}  // namespace tessera
