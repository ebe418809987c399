#pragma once

// The state of an optimizer as it is kept between updates: in the master's type, in bfloat16 or in
// codes of eight bits. For an update the tensors of a batch of parameters are opened, that is,
// widened to the master's type, and closed again, so that little is wide at a time.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/comm/device_mesh.h"
#include "tessera/comm/sharded_param.h"
#include "tessera/comm/state_tensor.h"
#include "tessera/config/config.h"
#include "tessera/layout/updates/moment_blocks.h"
#include "tessera/layout/updates/moment_type.h"

namespace tessera {

class Moments {
 public:
  /// Zeros for every row of `table`. `stage`: the group of the stage, where codes may be; it is
  /// asked for the largest values of blocks that cuts divide.
  Moments(const Config& config, const ParamTable& table, const DeviceMesh& mesh,
          ProcessGroup stage);

  /// Rows of the table that are opened together; the same on every rank of the stage. Together all
  /// rows.
  const std::vector<std::vector<size_t>>& batches() const { return batches_; }

  void open(size_t batch);
  /// Codes and rounds what is open. `update`: its number, which rounding depends on. Collective
  /// over the stage.
  void close(size_t batch, int64_t update);

  /// The tensor of a row in a slot: of a short type, while its batch is open.
  at::Tensor& tensor(size_t row, size_t slot);
  /// All tensors of a row, as they are kept.
  std::vector<StateTensor> kept(size_t row) const;

  /// Fills the slots that are kept as codes from numbers: `read` gets the row, the slot's name and
  /// a tensor of the master's type to fill. Collective over the stage; what `read` throws is thrown
  /// again when all is done.
  using Read = std::function<void(size_t row, const std::string& slot, const at::Tensor& values)>;
  void encode(const Read& read);

 private:
  struct Kept {
    StateTensor stored;
    MomentType type = MomentType::kMaster;
    at::Tensor open;
  };
  // A block of the row's part that a cut divides.
  struct Divided {
    int64_t local = 0;   // place among the row's own scales
    int64_t shared = 0;  // place among the divided blocks of the whole tensor
  };
  struct Row {
    std::vector<Kept> slots;
    MatrixBlocks blocks;  // of its part of each matrix
    std::vector<Divided> divided;
    int64_t shared = 0;  // divided blocks of the whole tensor
  };

  void add_row(const Config& config, const ShardedParam& param);
  void find_divided(Row& row, const ShardedParam& param, const DeviceMesh& mesh);
  void find_scales(const std::vector<size_t>& rows);
  void encode(Row& row, const ShardedParam& param, int64_t update);

  const ParamTable& table_;
  ProcessGroup stage_;
  uint64_t seed_ = 0;
  std::vector<Row> rows_;
  std::vector<std::vector<size_t>> batches_;
};

}  // namespace tessera
