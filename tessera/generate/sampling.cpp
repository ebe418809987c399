#include "tessera/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_set>

#include "tessera/nn/kernels/philox.h"

namespace tessera {
namespace {

constexpr double kLeftOut = -std::numeric_limits<double>::infinity();

void penalise(std::vector<double>& logits, std::span<const int32_t> text, double penalty) {
  const std::unordered_set<int32_t> seen(text.begin(), text.end());
  for (const int32_t id : seen) {
    double& logit = logits[static_cast<size_t>(id)];
    logit = logit < 0 ? logit * penalty : logit / penalty;
  }
}

void keep_most_likely(std::vector<double>& logits, int64_t k) {
  if (k >= static_cast<int64_t>(logits.size())) return;
  std::vector<double> sorted = logits;
  std::ranges::nth_element(sorted, sorted.begin() + k - 1, std::greater<>());
  const double least = sorted[static_cast<size_t>(k - 1)];
  for (double& logit : logits) {
    if (logit < least) logit = kLeftOut;
  }
}

std::vector<double> softmax(const std::vector<double>& logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> p(logits.size());
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += p[i] = std::exp(logits[i] - largest);
  for (double& value : p) value /= sum;
  return p;
}

// Leaves out a token when it and all less likely ones have at most 1 - top_p together.
void keep_top_p(std::vector<double>& p, double top_p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return p[a] < p[b]; });
  double below = 0;
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    below += p[order[i]];
    if (below > 1 - top_p) break;
    p[order[i]] = 0;
  }
}

void normalise(std::vector<double>& p) {
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
}

// In [0, 1), with 53 bits.
double uniform(uint64_t seed, const DrawPlace& place) {
  const uint64_t key = philox_key(philox_key(seed, "generation"), place.prompt);
  const auto words = philox(
      key, {static_cast<uint32_t>(place.token), static_cast<uint32_t>(place.token >> 32), 0, 0});
  const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace

std::vector<double> token_probabilities(std::vector<double> logits, std::span<const int32_t> text,
                                        const SamplingOptions& options) {
  if (options.repetition_penalty != 1.0) penalise(logits, text, options.repetition_penalty);
  if (options.temperature == 0) {
    std::vector<double> p(logits.size(), 0.0);
    p[static_cast<size_t>(std::ranges::max_element(logits) - logits.begin())] = 1.0;
    return p;
  }
  for (double& logit : logits) logit /= options.temperature;
  if (options.top_k > 0) keep_most_likely(logits, options.top_k);
  std::vector<double> p = softmax(logits);
  if (options.top_p < 1) {
    keep_top_p(p, options.top_p);
    normalise(p);
  }
  if (options.min_p > 0) {
    const double least = options.min_p * *std::ranges::max_element(p);
    for (double& value : p) {
      if (value < least) value = 0;
    }
    normalise(p);
  }
  return p;
}

int32_t choose_token(std::vector<double> logits, std::span<const int32_t> text,
                     const SamplingOptions& options, const DrawPlace& place) {
  const std::vector<double> p = token_probabilities(std::move(logits), text, options);
  const double drawn = options.temperature == 0 ? 0.0 : uniform(options.seed, place);
  double below = 0;
  size_t last = 0;  // rounding may leave the sum below what was drawn
  for (size_t id = 0; id < p.size(); ++id) {
    if (p[id] == 0) continue;
    last = id;
    below += p[id];
    if (drawn < below) break;
  }
  return static_cast<int32_t>(last);
}

}  // namespace tessera
