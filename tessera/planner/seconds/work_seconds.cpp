#include "tessera/planner/seconds/work_seconds.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tessera {
namespace {

Spent kind_of(const Work& work) {
  switch (work.kind) {
    case WorkKind::kProducts: return Spent::kProducts;
    case WorkKind::kExperts: return Spent::kExperts;
    case WorkKind::kAttention:
    case WorkKind::kAttentionBack: return Spent::kAttention;
    case WorkKind::kElements: return Spent::kElements;
    case WorkKind::kMessage: break;
  }
  switch (work.axis) {
    case Axis::kCp: return Spent::kCp;
    case Axis::kEp: return Spent::kEp;
    default: return Spent::kTp;
  }
}

// Messages one after the other of a collective, of which each waits for the one before.
double hops(std::string_view operation, int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  if (operation == "send") return 1.0;
  if (operation == "all_reduce") return 2.0 * std::log2(n);
  if (operation == "all_to_all") return 1.0;
  return std::log2(n);
}

}  // namespace

WorkSeconds::WorkSeconds(const Machine& machine, const Config& config, const ParallelDims& dims,
                         bool processes)
    : machine_(machine),
      dims_(dims),
      rates_(machine.rates(config.model.compute_dtype)),
      transport_(processes ? "processes" : "threads") {}

double WorkSeconds::elements(double bytes) const { return bytes / machine_.memory_bandwidth; }

double WorkSeconds::compute(const Work& work) const {
  const double calls = static_cast<double>(work.calls) * machine_.call;
  switch (work.kind) {
    case WorkKind::kProducts:
    case WorkKind::kExperts:
      return calls + work.flops / (rates_.peak * rates_.products(work.extent));
    case WorkKind::kAttention: return calls + work.flops / rates_.attention;
    case WorkKind::kAttentionBack: return calls + work.flops / rates_.attention_back;
    case WorkKind::kElements: return calls + machine_.fusion * elements(work.bytes);
    case WorkKind::kMessage: break;
  }
  return 0.0;
}

double WorkSeconds::message(std::string_view operation, int64_t ranks, int64_t stride,
                            double bytes) const {
  if (ranks <= 1) return 0.0;
  const CollectiveTimes* nearest = nullptr;
  for (const CollectiveTimes& row : machine_.collectives) {
    if (row.transport != transport_ || row.operation != operation) continue;
    if (nearest == nullptr || std::abs(std::log(static_cast<double>(row.ranks) / ranks)) <
                                  std::abs(std::log(static_cast<double>(nearest->ranks) / ranks))) {
      nearest = &row;
    }
  }
  if (nearest != nullptr) {
    const Curve::Point& last = nearest->seconds.points.back();
    if (bytes <= last.at) return nearest->seconds(std::max(bytes, 1.0));
    return last.value * bytes / last.at;
  }
  const int64_t node = machine_.node_ranks > 0 ? machine_.node_ranks : dims_.world;
  const bool inside = (ranks - 1) * stride < node && (ranks * stride <= node || stride == 1);
  const double latency = hops(operation, ranks);
  if (inside) return latency * machine_.in_node.latency + bytes / machine_.in_node.bandwidth;
  // Neighbours on one node use their links to other nodes together.
  const auto neighbours =
      static_cast<double>(std::clamp<int64_t>(node / std::max<int64_t>(1, stride), 1, ranks));
  const double seconds = latency * machine_.between.latency;
  if (operation == "all_to_all") {
    const double outside =
        (static_cast<double>(ranks) - neighbours) / static_cast<double>(ranks - 1);
    return seconds + std::max(bytes * outside / machine_.between.bandwidth,
                              bytes * (1 - outside) / machine_.in_node.bandwidth);
  }
  if (operation == "send") return seconds + bytes / machine_.between.bandwidth;
  return seconds +
         bytes / std::min(machine_.in_node.bandwidth, neighbours * machine_.between.bandwidth);
}

double WorkSeconds::message(Axis axis, std::string_view operation, double bytes) const {
  const int64_t ranks = dims_.size(axis);
  if (ranks <= 1) return 0.0;
  int64_t stride = 1;
  switch (axis) {
    case Axis::kPp: stride = dims_.world / dims_.pp; break;
    case Axis::kDpReplicate: stride = dims_.dp_shard * dims_.cp * dims_.tp; break;
    case Axis::kDpShard:
    case Axis::kBatch: stride = dims_.cp * dims_.tp; break;
    case Axis::kCp:
    case Axis::kFsdp:
    case Axis::kLoss: stride = dims_.tp; break;
    case Axis::kEfsdp: stride = dims_.ep; break;
    case Axis::kEmbedding: stride = dims_.world / dims_.pp * (dims_.pp - 1); break;
    case Axis::kTp:
    case Axis::kEp:
    case Axis::kWorld: break;
  }
  return message(operation, ranks, stride, bytes);
}

SpentSeconds WorkSeconds::of(const std::vector<Work>& work) const {
  SpentSeconds spent;
  SpentSeconds hidden;
  for (const Work& item : work) {
    if (item.kind != WorkKind::kMessage) {
      spent[kind_of(item)] += compute(item);
      continue;
    }
    const auto calls = static_cast<double>(std::max<int64_t>(1, item.calls));
    const double seconds =
        calls * message(item.operation, item.ranks, item.stride, item.bytes / calls);
    (item.hidden && machine_.overlap ? hidden : spent)[kind_of(item)] += seconds;
  }
  const double left = std::max(0.0, hidden.sum() - spent.compute());
  if (left > 0) {
    for (size_t i = 0; i < kSpentKinds; ++i) spent.of[i] += hidden.of[i] * left / hidden.sum();
  }
  return spent;
}

}  // namespace tessera
