#include "tessera/generate/generate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// A place of the batch, on one data-parallel rank. Every rank knows all of them.
struct Slot {
  std::optional<size_t> prompt;
  bool has_prompt_run = false;  // its prompt is in the caches
};

class Generation {
 public:
  Generation(Generator& generator, const std::vector<std::vector<int32_t>>& prompts,
             const GenerationOptions& options, const OnToken& on_token, uint64_t first_prompt)
      : generator_(generator),
        prompts_(prompts),
        options_(options),
        on_token_(on_token),
        first_prompt_(first_prompt),
        texts_(prompts),
        answers_(prompts.size()),
        slots_(static_cast<size_t>(generator.mesh().size(Axis::kBatch) * options.batch_size)) {}

  std::vector<Answer> run() {
    while (fill()) step();
    return std::move(answers_);
  }

 private:
  // Prompts take free places, the ranks in turn. False: all answers are there.
  bool fill() {
    const auto batch = static_cast<size_t>(options_.batch_size);
    const size_t ranks = slots_.size() / batch;
    for (size_t i = 0; i < slots_.size() && next_ < prompts_.size(); ++i) {
      Slot& slot = slots_[i % ranks * batch + i / ranks];
      if (!slot.prompt) slot = {next_++, false};
    }
    return std::ranges::any_of(slots_, [](const Slot& slot) { return slot.prompt.has_value(); });
  }

  // One more token of every row. Each rank computes its own places; then all know all tokens.
  void step() {
    const auto batch = static_cast<size_t>(options_.batch_size);
    const DeviceMesh& mesh = generator_.mesh();
    const size_t first = static_cast<size_t>(mesh.coordinate(Axis::kBatch)) * batch;
    std::vector<RowTokens> rows;
    for (size_t place = 0; place < batch; ++place) {
      const Slot& slot = slots_[first + place];
      if (!slot.prompt) continue;
      const std::span<const int32_t> text = texts_[*slot.prompt];
      rows.push_back({static_cast<int64_t>(place), slot.has_prompt_run ? text.last(1) : text});
    }
    const at::Tensor logits = generator_.next_logits(rows);
    at::Tensor chosen = at::zeros({static_cast<int64_t>(slots_.size())}, at::kLong);
    if (generator_.on_last_stage() && mesh.coordinate(Axis::kTp) == 0 &&
        mesh.coordinate(Axis::kCp) == 0) {
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto place = first + static_cast<size_t>(rows[i].row);
        chosen[static_cast<int64_t>(place)] = choose(logits[static_cast<int64_t>(i)], place) + 1;
      }
    }
    mesh[Axis::kWorld].all_reduce({chosen}).wait();
    take(chosen.const_data_ptr<int64_t>());
  }

  int64_t choose(const at::Tensor& logits_V, size_t place) const {
    const size_t prompt = *slots_[place].prompt;
    const SamplingOptions& sampling = options_.sampling;
    if (sampling.temperature == 0 && sampling.repetition_penalty == 1.0) {
      return logits_V.argmax().item<int64_t>();
    }
    const at::Tensor wide = logits_V.to(at::kDouble).contiguous();
    const double* first = wide.const_data_ptr<double>();
    return choose_token({first, first + wide.numel()}, texts_[prompt], sampling,
                        {first_prompt_ + prompt, answers_[prompt].ids.size()});
  }

  // An on_token of rank 0 may end rows; all ranks learn of it.
  void take(const int64_t* chosen) {
    at::Tensor ended = at::zeros({static_cast<int64_t>(slots_.size())}, at::kLong);
    int64_t* ends = ended.mutable_data_ptr<int64_t>();
    for (size_t place = 0; place < slots_.size(); ++place) {
      Slot& slot = slots_[place];
      if (!slot.prompt) continue;
      TESSERA_CHECK(chosen[place] > 0, "no rank has chosen a token for place ", place);
      const auto id = static_cast<int32_t>(chosen[place] - 1);
      Answer& answer = answers_[*slot.prompt];
      texts_[*slot.prompt].push_back(id);
      answer.ids.push_back(id);
      slot.has_prompt_run = true;
      if (std::ranges::find(options_.stop_tokens, id) != options_.stop_tokens.end()) {
        answer.end = Answer::End::kStop;
        ends[place] = 1;
      } else if (is_full(*slot.prompt)) {
        ends[place] = 1;
      }
      if (on_token_ && generator_.mesh().rank() == 0 && on_token_(*slot.prompt, answer) &&
          ends[place] == 0) {
        ends[place] = 2;  // 2: its text ends it
      }
    }
    if (has_listener()) generator_.mesh()[Axis::kWorld].broadcast({ended}, 0).wait();
    for (size_t place = 0; place < slots_.size(); ++place) {
      if (ends[place] == 0) continue;
      if (ends[place] == 2) answers_[*slots_[place].prompt].end = Answer::End::kStop;
      end(place);
    }
  }

  // Rank 0 may have one where others have none: they ask the same question.
  bool has_listener() const { return static_cast<bool>(on_token_); }

  bool is_full(size_t prompt) const {
    const auto made = static_cast<int64_t>(answers_[prompt].ids.size());
    const auto length = static_cast<int64_t>(texts_[prompt].size());
    return made >= options_.max_new_tokens ||
           (options_.max_length > 0 && length >= options_.max_length);
  }

  void end(size_t place) {
    slots_[place] = {};
    const auto batch = static_cast<size_t>(options_.batch_size);
    if (static_cast<size_t>(generator_.mesh().coordinate(Axis::kBatch)) == place / batch) {
      generator_.forget(static_cast<int64_t>(place % batch));
    }
  }

  Generator& generator_;
  const std::vector<std::vector<int32_t>>& prompts_;
  const GenerationOptions& options_;
  const OnToken& on_token_;
  uint64_t first_prompt_;
  std::vector<std::vector<int32_t>> texts_;  // prompts and what follows them
  std::vector<Answer> answers_;
  std::vector<Slot> slots_;
  size_t next_ = 0;
};

}  // namespace

std::vector<Answer> generate(Generator& generator, const std::vector<std::vector<int32_t>>& prompts,
                             const GenerationOptions& options, const OnToken& on_token,
                             uint64_t first_prompt) {
  return Generation(generator, prompts, options, on_token, first_prompt).run();
}

}  // namespace tessera
