#pragma once

// Which samples each update of a run holds, also when the batch grows (training.rampup_batch_size).

#include <cstdint>
#include <vector>

namespace tessera {

/// The batch of an update, by the samples that were trained on before it.
struct BatchGrowth {
  int64_t first = 1;      // batch of the first update
  int64_t increment = 0;  // from a level to the next
  int64_t samples = 0;    // over which it grows, in equal parts of one level each
  int64_t last = 1;       // batch from then on

  static BatchGrowth fixed(int64_t batch) { return {batch, 0, 0, batch}; }

  int64_t levels() const { return increment > 0 ? (last - first) / increment : 0; }
  bool grows() const { return levels() > 0 && samples > 0; }
  /// first + increment x floor(trained x levels / samples), at most `last`; exact.
  int64_t batch_at(int64_t trained) const;

  bool operator==(const BatchGrowth&) const = default;
};

/// One update: samples [place, place + batch) of the endless row of passes over the data, in which
/// place p is sample p % available of pass p / available.
struct UpdateSpan {
  int64_t step = 0;     // updates before it
  int64_t samples = 0;  // trained on before it, those that were read twice counted twice
  int64_t place = 0;
  int64_t batch = 1;

  bool operator==(const UpdateSpan&) const = default;
};

/// Samples of the endless row that an update read.
struct SampleRange {
  int64_t place = 0;
  int64_t count = 0;

  bool operator==(const SampleRange&) const = default;
};

class UpdateSequence {
 public:
  /// `available` samples in a pass. `drop_remainder`: a pass ends before an update that it cannot
  /// fill, else that is filled from the start of the next pass.
  UpdateSequence(BatchGrowth growth, int64_t available, bool drop_remainder)
      : growth_(growth), available_(available), drop_remainder_(drop_remainder) {}

  /// Update `step` of a run that started at the beginning.
  UpdateSpan at(int64_t step) const;
  UpdateSpan after(const UpdateSpan& span) const;
  /// The update of a run that goes on at `step` with `samples` trained on and `place` reached.
  UpdateSpan from(int64_t step, int64_t samples, int64_t place) const;

  /// The same without these samples: an update that would hold one of them begins behind them.
  /// at() knows nothing of them.
  UpdateSequence without(std::vector<SampleRange> left_out) const;

  const BatchGrowth& growth() const { return growth_; }

 private:
  BatchGrowth growth_;
  int64_t available_;
  bool drop_remainder_;
  std::vector<SampleRange> left_out_;  // in the order of their places
};

/// A level of a growing batch: the updates that have it.
struct BatchLevel {
  int64_t batch = 1;
  int64_t first_step = 0;  // updates before it
  int64_t steps = 0;
  int64_t samples = 0;  // trained on at its end

  bool operator==(const BatchLevel&) const = default;
};

/// The levels that the first `steps` updates go through, in their order.
std::vector<BatchLevel> batch_levels(const BatchGrowth& growth, int64_t steps);

}  // namespace tessera
