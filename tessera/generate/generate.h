#pragma once

// From prompts to answers, over the ranks of a run.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/generate/generator.h"
#include "tessera/generate/sampling.h"

namespace tessera {

struct GenerationOptions {
  SamplingOptions sampling;
  int64_t max_new_tokens = 50;
  int64_t max_length = 0;            // of prompt and answer together; 0: no limit
  int64_t batch_size = 8;            // rows at once on each data-parallel rank
  std::vector<int32_t> stop_tokens;  // an answer ends with one of them, which stays in it
};

struct Answer {
  enum class End { kStop, kLength };
  std::vector<int32_t> ids;  // without the prompt
  End end = End::kLength;
};

/// Sees each new token of prompt `prompt` on rank 0; true: the answer ends here.
using OnToken = std::function<bool(size_t prompt, const Answer& answer)>;

/// The answers of all prompts, in their order, the same on every rank. Data-parallel ranks deal
/// the prompts among them; a prompt takes the place of one that ended. Collective over the
/// generator's mesh. `first_prompt`: number of the first one among the draws of a run.
std::vector<Answer> generate(Generator& generator, const std::vector<std::vector<int32_t>>& prompts,
                             const GenerationOptions& options, const OnToken& on_token = {},
                             uint64_t first_prompt = 0);

}  // namespace tessera
