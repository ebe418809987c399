#include "tessera/layout/context_grid.h"

#include "tessera/layout/training_data.h"

namespace tessera {
namespace {

// Keys and values of a sequence, in bytes, up to which they are gathered rather than sent in turn.
constexpr int64_t kGatheredKeyBytes = int64_t{256} << 20;

}  // namespace

ContextGrid context_grid(const ParallelismConfig& parallelism) {
  const int64_t cp = parallelism.context_parallel;
  if (parallelism.context_parallel_method == "ulysses") return {cp, 1};
  if (parallelism.context_parallel_method != "hybrid") return {1, cp};
  const int64_t inner = parallelism.ulysses_degree_in_cp.value_or(1);
  return {inner, cp / inner};
}

bool trades_in_turn(const ParallelismConfig& parallelism) {
  return parallelism.context_parallel_async && context_grid(parallelism).inner > 1;
}

KeyExchange key_exchange(const ParallelismConfig& parallelism) {
  const std::string& asked = parallelism.context_parallel_exchange;
  if (asked == "ring") return KeyExchange::kRing;
  return asked == "allgather" ? KeyExchange::kAllGather : KeyExchange::kAuto;
}

bool travels_in_ring(KeyExchange asked, int64_t groups, int64_t key_bytes) {
  if (groups == 1) return true;  // a ring without a hop: nothing is copied
  if (asked == KeyExchange::kAuto) return 2 * key_bytes * groups > kGatheredKeyBytes;
  return asked == KeyExchange::kRing;
}

TokenBalance token_balance(const Config& config) {
  const std::string& asked = config.parallelism.context_parallel_balance;
  const DatasetConfig& data = config.train_dataset.dataloader.config;
  const int64_t groups = context_grid(config.parallelism).outer;
  if (groups == 1 || asked == "contiguous") return TokenBalance::kContiguous;
  if (packs_documents(data) && asked == "auto") return TokenBalance::kByWork;
  return data.seq_length % head_tail_pieces(groups) == 0 ? TokenBalance::kHeadTail
                                                         : TokenBalance::kContiguous;
}

}  // namespace tessera
