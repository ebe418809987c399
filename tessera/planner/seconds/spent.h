#pragma once

#include <array>
#include <cstddef>
#include <numeric>
#include <string_view>

namespace tessera {

/// What the seconds of a step go into.
enum class Spent {
  kProducts,
  kExperts,
  kAttention,
  kElements,
  kTp,  // waiting for messages, by axis
  kCp,
  kEp,
  kFsdp,  // weights and gradients, experts' too
  kPp,
  kFinish,  // gradients that are still partial sums; the norm
  kUpdate,
  kLoad,
  kShared,  // others have the cores
  kIdle,    // until other stages have what this one needs
};
inline constexpr size_t kSpentKinds = 14;
/// "products", ...; of waiting the axis.
std::string_view spent_name(size_t kind);

/// Seconds by what they go into.
struct SpentSeconds {
  std::array<double, kSpentKinds> of{};

  double& operator[](Spent kind) { return of[static_cast<size_t>(kind)]; }
  double operator[](Spent kind) const { return of[static_cast<size_t>(kind)]; }
  double sum() const { return std::accumulate(of.begin(), of.end(), 0.0); }
  /// Of what keeps the rank's processor busy.
  double compute() const { return of[0] + of[1] + of[2] + of[3]; }
  double waits() const { return sum() - compute(); }
  SpentSeconds& operator+=(const SpentSeconds& other) {
    for (size_t i = 0; i < kSpentKinds; ++i) of[i] += other.of[i];
    return *this;
  }
  bool operator==(const SpentSeconds&) const = default;
};

}  // namespace tessera
