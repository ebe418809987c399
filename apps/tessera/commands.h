#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/launcher/flags/flags.h"

namespace tessera {

/// A command of `tessera`. Its flags write into values that `run` reads.
struct Command {
  std::string name;
  std::string does;  // one line
  std::vector<Flag> flags;
  std::string end;           // of its help: examples
  std::function<int()> run;  // returns the exit code
};

Command train_command();
Command plan_command();
Command parity_command();
Command preprocess_command();
Command inspect_command();
Command evaluate_command();
Command export_command();
Command calibrate_command();
Command generate_command();
Command convert_command();
Command tokenize_command();
Command train_tokenizer_command();

/// The tokenizer that --tokenizer names, with ~ and $NAME of its path expanded.
std::string tokenizer_of_flag(const std::string& name);

}  // namespace tessera
