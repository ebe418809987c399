#pragma once

// How the next token is chosen from the logits of a model. No torch here.

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// In the order in which they apply, with the meaning that transformers gives them.
struct SamplingOptions {
  double repetition_penalty = 1.0;  // logits of tokens that stand in the text: / it, or * if < 0
  double temperature = 0.0;         // 0: the most likely token, the first of equal ones
  int64_t top_k = 0;                // the k most likely tokens alone; 0: all
  double top_p = 1.0;  // the fewest tokens, most likely first, with this probability together
  double min_p = 0.0;  // tokens with at least this part of the largest probability
  uint64_t seed = 42;
};

/// Which draw of a run this is: the same draw gives the same number on every layout.
struct DrawPlace {
  uint64_t prompt = 0;
  uint64_t token = 0;  // place in the answer, from 0
};

/// Probabilities of all tokens, zero for those that the options leave out. `text`: the ids so far.
/// Of temperature 0: 1 for the token that is chosen.
std::vector<double> token_probabilities(std::vector<double> logits_V, std::span<const int32_t> text,
                                        const SamplingOptions& options);

/// The next token.
int32_t choose_token(std::vector<double> logits_V, std::span<const int32_t> text,
                     const SamplingOptions& options, const DrawPlace& place);

}  // namespace tessera
