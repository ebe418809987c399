// Rules of context_parallel.

#include <algorithm>
#include <numeric>

#include "tessera/layout/context_grid.h"
#include "tessera/layout/training_data.h"
#include "tessera/rules/checker.h"

namespace tessera {
namespace {

constexpr std::string_view kDegree = "parallelism.context_parallel";
constexpr std::string_view kUlysses = "parallelism.ulysses_degree_in_cp";

// Degree of the all-to-all over heads: 1 for colossal; 0 when it is not legal.
int64_t check_method(Checker& check) {
  const ParallelismConfig& p = check.config.parallelism;
  const int64_t cp = p.context_parallel;
  const auto& asked = p.ulysses_degree_in_cp;
  if (p.context_parallel_method == "colossal") {
    if (asked) check.no_effect(kUlysses);
    if (p.context_parallel_async) {
      check.general(Severity::kNote,
                    "context_parallel_async with colossal: keys and values travel while blocks are "
                    "computed, asked for or not");
    }
    return 1;
  }
  if (p.context_parallel_exchange != "auto" && p.context_parallel_method == "ulysses") {
    check.no_effect("parallelism.context_parallel_exchange");
  }
  if (p.context_parallel_method == "ulysses") {
    if (!asked || *asked == cp) return cp;
    check.error(kUlysses,
                "must be context_parallel (" + std::to_string(cp) + ") or null with ulysses",
                std::to_string(cp) + ", null");
    return 0;
  }
  std::vector<int64_t> legal;
  for (const int64_t degree : divisors(cp)) {
    if (degree > 1 && degree < cp) legal.push_back(degree);
  }
  if (asked && *asked > 1 && *asked < cp && cp % *asked == 0) return *asked;
  const std::string rule =
      "must be above 1, below context_parallel (" + std::to_string(cp) + ") and divide it";
  if (!asked) {
    check.error(kUlysses, "is needed with hybrid; it " + rule, nearest_of(legal, 2));
  } else if (legal.empty()) {
    check.error(kUlysses, rule + "; no degree does, use colossal or ulysses");
  } else {
    check.error(kUlysses, rule, nearest_of(legal, *asked));
  }
  return 0;
}

// Heads of a tensor-parallel rank against the degree of the all-to-all. Fewer kv heads than the
// degree are copied.
void check_ulysses_heads(Checker& check, int64_t degree) {
  const ModelConfig& m = check.config.model;
  const int64_t tp = check.config.parallelism.tensor_parallel;
  if (!check.good({"model.num_attention_heads", "model.num_key_value_heads",
                   "parallelism.tensor_parallel"})) {
    return;
  }
  const int64_t heads = m.num_attention_heads / tp;
  const int64_t kv = std::max<int64_t>(1, m.core_kv_heads() / tp);
  const auto legal = [&](int64_t d) { return heads % d == 0 && (kv % d == 0 || d % kv == 0); };
  if (legal(degree)) return;
  const std::string of_rank = tp > 1 ? " of a tensor-parallel rank" : "";
  std::vector<int64_t> degrees;
  for (const int64_t d : divisors(heads)) {
    if (legal(d)) degrees.push_back(d);
  }
  const bool is_ulysses = check.config.parallelism.context_parallel_method == "ulysses";
  const std::string_view field = is_ulysses ? kDegree : kUlysses;
  if (heads % degree != 0) {
    check.error(field,
                "ulysses degree " + std::to_string(degree) + " must divide the attention heads" +
                    of_rank + " (" + std::to_string(heads) + ")",
                nearest_of(degrees, degree));
  } else {
    check.error(field,
                "ulysses degree " + std::to_string(degree) + " must divide the kv heads" + of_rank +
                    " (" + std::to_string(kv) + ") or be a multiple of them",
                nearest_of(degrees, degree));
  }
}

// "62, 64": the multiples of `step` around `length`.
std::string lengths_around(int64_t length, int64_t step) {
  const int64_t below = length / step * step;
  return (below > 0 ? std::to_string(below) + ", " : "") + std::to_string(below + step);
}

// `ulysses`: degree of the all-to-all over heads; a sample is balanced over the other factor.
void check_length(Checker& check, int64_t ulysses) {
  const ParallelismConfig& p = check.config.parallelism;
  const int64_t cp = p.context_parallel;
  const int64_t length = check.config.model.seq_length;
  if (!check.good({"model.seq_length"})) return;
  if (length % cp != 0) {
    check.error(kDegree, "must divide seq_length (" + std::to_string(length) + ")",
                nearest_divisors(length, cp) + "; or seq_length " + lengths_around(length, cp));
    return;
  }
  if (p.context_parallel_method == "ulysses") {
    if (p.context_parallel_balance == "head_tail") {
      check.no_effect("parallelism.context_parallel_balance");
    }
    return;
  }
  const int64_t halves = head_tail_pieces(cp / std::max<int64_t>(1, ulysses));
  const int64_t step = std::lcm(halves, cp);
  if (length % halves == 0) return;
  // Documents are shared by their work, at any length.
  const bool packed = packs_documents(check.config.train_dataset.dataloader.config);
  const std::string rule =
      "2 x context_parallel" + std::string(ulysses > 1 ? " / ulysses_degree_in_cp (" : " (") +
      std::to_string(halves) + ") does not divide seq_length (" + std::to_string(length) + ")";
  if (p.context_parallel_balance == "head_tail") {
    check.error("parallelism.context_parallel_balance", rule,
                "contiguous; or seq_length " + lengths_around(length, step));
  } else if (p.context_parallel_balance == "auto" && !packed) {
    check.general(Severity::kNote, rule +
                                       ": ranks take contiguous pieces, of unequal work; "
                                       "seq_length " +
                                       lengths_around(length, step) + " would be balanced");
  }
}

void check_mask(Checker& check) {
  const DatasetConfig& data = check.config.train_dataset.dataloader.config;
  const std::string sentence = "context_parallel > 1 requires a compressed attention mask: ";
  if (data.create_compressed_eod_mask) {
    if (data.create_attention_mask) {
      check.error("train_dataset.dataloader.config.create_attention_mask",
                  sentence +
                      "set create_attention_mask to false beside "
                      "create_compressed_eod_mask",
                  "false");
    }
  } else if (!check.config.model.use_attn_mask_compression) {
    check.error(kDegree, sentence +
                             "set model.use_attn_mask_compression to true, or for packed documents "
                             "train_dataset.dataloader.config.create_compressed_eod_mask to true "
                             "and create_attention_mask to false");
  }
}

}  // namespace

void check_context_parallel(Checker& check) {
  const ParallelismConfig& p = check.config.parallelism;
  if (!check.model_ok || !check.good({kDegree, "parallelism.context_parallel_method"})) return;
  if (p.context_parallel == 1) {
    for (const std::string_view key :
         {"parallelism.context_parallel_async", "parallelism.ulysses_degree_in_cp"}) {
      const bool asked =
          key == kUlysses ? p.ulysses_degree_in_cp.has_value() : p.context_parallel_async;
      if (asked) check.no_effect(key);
    }
    return;
  }
  const int64_t degree = check_method(check);
  if (degree > 1) check_ulysses_heads(check, degree);
  check_length(check, degree);
  check_mask(check);
}

}  // namespace tessera
