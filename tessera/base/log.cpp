#include "tessera/base/log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// libtorch's messages carry the stack of calls below them, which says nothing to a user. Its own
// variable asks for it.
std::string without_frames(const std::string& message) {
  if (std::getenv("TORCH_SHOW_CPP_STACKTRACES") != nullptr) return message;
  const size_t stack = message.find("\nException raised from ");
  return message.substr(0, std::min(stack, message.find("\nframe #0: ")));
}

void write_line(const char* level, const std::string& message) {
  std::string line = level + without_frames(message);
  if (line.empty() || line.back() != '\n') line += '\n';
  const char* data = line.data();
  size_t left = line.size();
  while (left > 0) {
    const ssize_t written = ::write(STDERR_FILENO, data, left);
    if (written < 0) {
      if (errno == EINTR) continue;
      return;  // nobody reads stderr any more: a log line is not worth a failure
    }
    data += written;
    left -= static_cast<size_t>(written);
  }
}

}  // namespace

void log_info(const std::string& message) { write_line("", message); }

void log_warning(const std::string& message) { write_line("warning: ", message); }

void log_error(const std::string& message) { write_line("error: ", message); }

void print_result(const std::string& text) {
  errno = 0;
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written < text.size() || std::fflush(stdout) != 0) {
    throw ConfigError(std::string("standard output: cannot be written: ") + std::strerror(errno));
  }
}

}  // namespace tessera
