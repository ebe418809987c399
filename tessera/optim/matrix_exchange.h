#pragma once

// Moves the gradients of whole matrices to the ranks that iterate on them, and the results back
// (layout/matrix_deal.h). While a rank iterates on the matrices of a round, those of the next are
// on their way.

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "tessera/comm/process_group.h"
#include "tessera/comm/sharded_param.h"
#include "tessera/layout/updates/matrix_deal.h"

namespace tessera {

class MatrixExchange {
 public:
  /// `params` are the tensors of `deal`, in its order; they must outlive the exchange. `stage`: the
  /// group of the stage.
  MatrixExchange(MatrixDeal deal, std::vector<ShardedParam*> params, ProcessGroup stage);

  /// Changes a whole matrix [rows, columns] in place.
  using Iterate = std::function<void(const DealtMatrix&, const at::Tensor& whole)>;
  /// Takes rows of the result: those of `value`, a view of a master.
  using Apply =
      std::function<void(const DealtMatrix&, const at::Tensor& value, const at::Tensor& result)>;

  /// Gathers the `grad` of every parameter, calls `iterate` with every matrix on its owner, and
  /// `apply` on every rank with its part of each result. Collective over the stage.
  void run(const Iterate& iterate, const Apply& apply) const;

  const MatrixDeal& deal() const { return deal_; }

 private:
  // A rank's part of a matrix, in a message with `peer` or, of this rank's own, in none.
  struct Part {
    size_t matrix = 0;  // place in the deal
    int64_t peer = 0;
    MatrixShare share;
    int64_t offset = 0;  // of its first element in the message
  };
  // Parts by peer and matrix, one after the other in the message.
  struct Message {
    std::vector<Part> parts;
    std::vector<int64_t> splits;  // elements by peer

    void finish(int64_t ranks);
    int64_t elements() const;
  };
  struct Round {
    std::vector<size_t> mine;    // matrices that this rank iterates on
    std::vector<Part> own;       // its parts of them
    Message given, taken;        // before: of others' matrices to them, of its own from others
    Message returned, received;  // after: of its own to others, of others' matrices
  };
  struct Transfer {
    at::Tensor in, out;
    Work work;
  };
  using Visit = std::function<void(const PieceRun&, const at::Tensor& rows)>;

  static void for_each_run(const Part& part, const at::Tensor& buffer, const Visit& visit);
  at::Tensor rows_of(const at::Tensor& tensor, const Part& part, const PieceRun& run) const;
  Transfer start(const Message& sent, const at::Tensor& buffer, const Message& received) const;
  Transfer start_gather(const Round& round) const;
  at::Tensor iterate_round(const Round& round, const at::Tensor& gathered, const Iterate& iterate,
                           const Apply& apply) const;
  void finish(const Round& round, Transfer transfer, const Apply& apply) const;

  MatrixDeal deal_;
  std::vector<ShardedParam*> params_;
  ProcessGroup stage_;
  std::vector<Round> rounds_;
};

}  // namespace tessera
