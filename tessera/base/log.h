#pragma once

#include <string>

namespace tessera {

/// Each call is one write of whole lines to stderr, so lines of concurrent ranks never mix.
/// A message of several lines gets the level in front of its first line only.
void log_info(const std::string& message);
void log_warning(const std::string& message);
void log_error(const std::string& message);

/// Writes what a command was asked for to standard output. Throws ConfigError when it cannot be
/// written whole, as on a full disk.
void print_result(const std::string& text);

}  // namespace tessera
