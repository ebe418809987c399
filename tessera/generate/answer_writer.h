#pragma once

// Where answers go. No torch here.

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tessera/generate/prompts.h"

namespace tessera {

struct WrittenAnswer {
  size_t index = 0;  // of the prompt, from 0
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> ids;  // of the answer
  std::string text;          // of the answer
  std::string end;           // "stop" or "length"
  std::string error;         // why there is no answer; empty: there is one
};

/// The answers of a run in the order of its prompts, in the form of the output's ending: .jsonl an
/// object a line, .json one list, others a text a line. With `inference.input_data` the objects are
/// those of the reference's predictions. Throws ConfigError when the file cannot be written.
void write_answers(const std::string& path, const std::vector<Prompt>& prompts,
                   const std::vector<WrittenAnswer>& answers);

/// One line of JSON.
std::string answer_line(const Prompt& prompt, const WrittenAnswer& answer);

}  // namespace tessera
