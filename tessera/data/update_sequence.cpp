#include "tessera/data/update_sequence.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera {

int64_t BatchGrowth::batch_at(int64_t trained) const {
  if (!grows() || trained > samples) return last;
  // In 128 bits: both factors may be large.
  const auto level = static_cast<int64_t>(static_cast<__int128>(trained) * levels() / samples);
  return std::min(first + increment * level, last);
}

UpdateSpan UpdateSequence::from(int64_t step, int64_t samples, int64_t place) const {
  UpdateSpan span{step, samples, place, growth_.batch_at(samples)};
  const auto next_pass = [&] {
    if (drop_remainder_ && span.place % available_ + span.batch > available_) {
      span.place = (span.place / available_ + 1) * available_;
    }
  };
  next_pass();
  for (const SampleRange& range : left_out_) {
    if (span.place >= range.place + range.count || span.place + span.batch <= range.place) continue;
    span.place = range.place + range.count;
    next_pass();
  }
  return span;
}

UpdateSequence UpdateSequence::without(std::vector<SampleRange> left_out) const {
  UpdateSequence sequence = *this;
  sequence.left_out_ = std::move(left_out);
  std::ranges::sort(sequence.left_out_, {}, &SampleRange::place);
  return sequence;
}

UpdateSpan UpdateSequence::after(const UpdateSpan& span) const {
  return from(span.step + 1, span.samples + span.batch, span.place + span.batch);
}

UpdateSpan UpdateSequence::at(int64_t step) const {
  UpdateSpan span = from(0, 0, 0);
  while (span.step < step && span.batch != growth_.last) span = after(span);
  const int64_t left = step - span.step;
  if (left == 0) return span;
  // From here on all updates are alike.
  span.step = step;
  span.samples += left * growth_.last;
  if (!drop_remainder_) {
    span.place += left * growth_.last;
    return span;
  }
  const int64_t in_this_pass = (available_ - span.place % available_) / growth_.last;
  if (left < in_this_pass) {
    span.place += left * growth_.last;
    return span;
  }
  const int64_t per_pass = available_ / growth_.last;
  TESSERA_CHECK(per_pass > 0, "a pass of ", available_, " samples, updates of ", growth_.last);
  const int64_t beyond = left - in_this_pass;
  const int64_t pass = span.place / available_ + 1 + beyond / per_pass;
  span.place = pass * available_ + beyond % per_pass * growth_.last;
  return span;
}

std::vector<BatchLevel> batch_levels(const BatchGrowth& growth, int64_t steps) {
  std::vector<BatchLevel> levels;
  int64_t trained = 0;
  for (int64_t step = 0; step < steps;) {
    const int64_t batch = growth.batch_at(trained);
    if (levels.empty() || levels.back().batch != batch) levels.push_back({batch, step, 0, trained});
    const int64_t count = batch == growth.last ? steps - step : 1;
    trained += count * batch;
    step += count;
    levels.back().steps += count;
    levels.back().samples = trained;
  }
  return levels;
}

}  // namespace tessera
