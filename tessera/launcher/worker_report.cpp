#include "tessera/launcher/worker_report.h"

#include <string.h>

#include <cstdio>
#include <fstream>

#include "tessera/launcher/worker_log.h"

namespace tessera {
namespace {

std::string indented(const std::string& text) {
  std::string result = "    ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "    ";
  }
  return result;
}

}  // namespace

// State T or t, behind the name in parentheses.
bool is_stopped(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  return text[name_end + 2] == 'T' || text[name_end + 2] == 't';
}

std::string meaning(int exit_code) {
  switch (exit_code) {
    case 1: return "an internal error";
    case 2: return "the file, the flags or the data are wrong";
    case 3: return "a peer or a link failed";
    case 4: return "a checkpoint";
    case 5: return "a loss or a norm that is not finite";
    case 6: return "parity differs";
    case 127: return "the program did not start";
    default:
      return exit_code > 128 ? std::string("ended early by ") + ::strsignal(exit_code - 128)
                             : "a foreign code";
  }
}

std::string log_text(const Worker& worker) {
  const LogEnd end = read_log_end(worker.program.output);
  std::string shown = worker.echo ? "" : end.context;  // an echoed log is on the screen already
  if (!end.error.empty()) shown += (shown.empty() ? "" : "\n") + end.error;
  std::string text = "\nits log: " + worker.program.output;
  if (!shown.empty()) text += ", which ends with\n" + indented(shown);
  return text;
}

std::string stack_text(pid_t pid) {
  const std::string command =
      "command -v gdb >/dev/null && timeout -s KILL 4 gdb -p " + std::to_string(pid) +
      " -batch -ex 'thread apply all backtrace 12' 2>/dev/null | grep -E '^(Thread|#)' | head -60";
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  char line[300];
  while (std::fgets(line, sizeof line, pipe) != nullptr) text += line;
  ::pclose(pipe);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "" : "\nits stack:\n" + indented(text);
}

}  // namespace tessera
