#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// Axes of the mesh of ranks. The first five multiply to the world, outer to inner: rank =
/// (((pp * R + dp_replicate) * S + dp_shard) * C + cp) * T + tp. The others are derived:
/// fsdp = dp_shard x cp, batch = dp_replicate x dp_shard, loss = batch x cp; ep and efsdp cut the
/// same ranks as dp_shard x cp x tp: ep runs of consecutive ranks, efsdp with stride ep. embedding
/// joins the first and the last stage of a pipeline, which share a tied matrix (every other rank is
/// alone); world joins everyone.
enum class Axis {
  kPp,
  kDpReplicate,
  kDpShard,
  kCp,
  kTp,
  kFsdp,
  kBatch,
  kLoss,
  kEp,
  kEfsdp,
  kEmbedding,
  kWorld
};

/// The axes whose groups are all of one size: what a plan shows.
inline constexpr std::array<Axis, 10> kEvenAxes = {
    Axis::kPp,   Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp,
    Axis::kFsdp, Axis::kBatch,       Axis::kLoss,    Axis::kEp, Axis::kEfsdp};

inline constexpr std::array<Axis, 12> kAllAxes = {
    Axis::kPp,    Axis::kDpReplicate, Axis::kDpShard, Axis::kCp,    Axis::kTp,        Axis::kFsdp,
    Axis::kBatch, Axis::kLoss,        Axis::kEp,      Axis::kEfsdp, Axis::kEmbedding, Axis::kWorld};

/// "pp", "dp_replicate", ...: for everything that is read or written as text.
std::string_view axis_name(Axis axis);

/// The axis of a name; nothing for a name that no axis has.
std::optional<Axis> axis_from_name(std::string_view name);

/// Names in the order of `axes`, with ", " between them.
template <typename Axes>
std::string axis_names(const Axes& axes) {
  std::string text;
  for (const Axis axis : axes) {
    if (!text.empty()) text += ", ";
    text += axis_name(axis);
  }
  return text;
}

}  // namespace tessera
