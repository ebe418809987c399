#pragma once

// Where a forward pass begins to differ: the residual stream in front of every layer and after
// every attention, as one number each that is the same in every layout.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace tessera {

class DeviceMesh;
struct ParallelModel;

/// A place in the forward pass, in its order: (layer, 0) in front of a layer, (layer, 1) after its
/// attention.
using StreamPlace = std::pair<int64_t, int64_t>;

/// "activations in front of layer 2", "activations after the attention of layer 2".
std::string to_string(const StreamPlace& place);

/// Of the first step: the sum over the tokens of the global batch of a weight, which depends on the
/// sample and the place in it, times the squares of the token's activations. The stream of a stage
/// is cut over all its ranks, so this is the sum over all ranks. Shared by the thread ranks.
class StreamSums {
 public:
  /// Watches the layers of a rank's model; must outlive it.
  void watch(ParallelModel& model, const DeviceMesh& mesh);
  /// After the step.
  std::map<StreamPlace, double> total() const;

 private:
  void add(const StreamPlace& place, int rank, double sum);
  std::map<StreamPlace, std::map<int, double>> sums_;  // by rank: added up in a fixed order
  std::mutex mutex_;
};

}  // namespace tessera
