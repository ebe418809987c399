#pragma once

// One round of messages with peers, the step of which the collectives between processes are made.
// Small pieces for one peer travel as one message; large ones straight from and to their place.

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/process_group.h"
#include "tessera/comm/processes/message_transport.h"
#include "tessera/launcher/rank_page.h"

namespace tessera {

/// What the groups of a world of processes share.
struct MessageWorld {
  std::unique_ptr<MessageTransport> transport;
  GroupOptions options;
  std::shared_ptr<RankPage> page;  // tells the launcher whom this rank waits for, or null
  int32_t next_group = 0;  // number of the next group this rank joins, see MessageGroup::split
};

struct Piece {
  std::byte* data = nullptr;
  int64_t bytes = 0;
};

class MessageExchange : public Work::Impl {
 public:
  /// `what` names operation and group in errors.
  MessageExchange(std::shared_ptr<MessageWorld> world, int32_t tag, std::string what);

  /// Pieces to and from world rank `peer`. Both sides give equal sizes in equal order.
  void send(int peer, const std::vector<Piece>& pieces);
  void send_to_all(const std::vector<int>& peers, const std::vector<Piece>& pieces);
  void recv(int peer, std::vector<Piece> pieces);
  /// Keeps memory alive until the exchange is over.
  void keep(std::vector<at::Tensor> tensors) {
    kept_.insert(kept_.end(), tensors.begin(), tensors.end());
  }
  /// Runs in wait(), when everything has arrived.
  void then(std::function<void()> finish) { finish_ = std::move(finish); }

  /// Throws CommError naming the peers that did not answer.
  void wait() override;
  /// For a thread that waits while the rank goes on: the wait is not told to the launcher.
  void wait_aside();
  /// Whether everything is known to be sent and received.
  bool done() const;
  /// Makes the wait() of another thread fail.
  void abort();

 private:
  struct Pending {
    int peer;
    std::unique_ptr<MessageTransport::Request> request;
  };
  struct Unpack {
    at::Tensor buffer;
    std::vector<Piece> pieces;
  };

  std::vector<Piece> packed(const std::vector<Piece>& pieces);
  void wait(RankPage* page);
  void wait_all(std::vector<Pending>& pending, MessageTransport::Clock::time_point deadline,
                RankPage* page);

  const std::shared_ptr<MessageWorld> world_;
  const int32_t tag_;
  const std::string what_;
  // Memory that requests read and write: it outlives them (members are destroyed from the last up).
  std::vector<at::Tensor> kept_;
  std::vector<Unpack> unpacks_;
  std::function<void()> finish_;
  std::vector<Pending> receives_;
  std::vector<Pending> sends_;
};

}  // namespace tessera
