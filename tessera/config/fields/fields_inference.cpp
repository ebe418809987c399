#include "tessera/config/fields/field.h"

namespace tessera {

std::vector<Field> inference_fields() {
  return {
      TESSERA_FIELD(run_mode, kHonoured,
                    "train; or predict: answers inference.input_data with the model at "
                    "checkpoint.load_path.")
          .one_of("train, predict"),
      TESSERA_FIELD(inference.max_new_tokens, kHonoured, "Longest answer.").at_least(1),
      TESSERA_FIELD(inference.batch_size, kHonoured,
                    "Answers that grow at once on a data-parallel rank.")
          .at_least(1),
      TESSERA_FIELD(inference.output, kHonoured,
                    "File of the answers: .jsonl, .json, or .txt and none for a text a line.")
          .path_of_files(),
      TESSERA_FIELD_AS(inference.input_data, PromptList, kHonoured,
                       "A prompt, the path of a file of prompts (.jsonl an object a line, else a "
                       "text a line), {instruction, input}, or a list of these."),
      TESSERA_FIELD(inference.temperature, kHonoured, "0: always the most likely token.")
          .at_least(0.0),
      TESSERA_FIELD(inference.top_k, kHonoured, "Draws among the k most likely; 0: among all.")
          .at_least(0),
      TESSERA_FIELD(inference.top_p, kHonoured,
                    "Draws among the fewest tokens that have this probability together.")
          .between(1e-6, 1.0),
      TESSERA_FIELD(inference.min_p, kHonoured,
                    "Draws among tokens with this part of the largest probability.")
          .between(0.0, 1.0),
      TESSERA_FIELD(inference.repetition_penalty, kHonoured,
                    "Above 1: tokens that stood in the text are less likely.")
          .above(0.0),
      TESSERA_FIELD(inference.seed, kHonoured, "Of the draws.").at_least(0),
      TESSERA_FIELD(inference.stop, kHonoured,
                    "Texts that end an answer, which is cut in front of them."),
  };
}

}  // namespace tessera
