#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace tessera {

/// What the chosen command does; returns the exit code.
using Command = std::function<int()>;

// Each adds its commands to the application; the one that is chosen sets `command`.
void add_engine_commands(CLI::App& app, Command& command);  // train, parity, export
void add_plan_command(CLI::App& app, Command& command);     // plan
void add_data_commands(CLI::App& app, Command& command);    // preprocess, inspect
void add_tokenizer_commands(CLI::App& app, Command& command);  // tokenize, train-tokenizer

}  // namespace tessera
