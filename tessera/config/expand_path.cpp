#include "tessera/config/expand_path.h"

#include <cctype>
#include <cstdlib>

#include "tessera/base/error.h"

namespace tessera {
namespace {

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string variable(const std::string& name, const std::string& why, std::string& problem) {
  const char* value = std::getenv(name.c_str());
  if (value != nullptr && *value != '\0') return value;
  problem = why + (value == nullptr ? " is not set" : " is empty");
  return "";
}

// The variable at `at`, where a $ stands; `at` moves behind it.
std::string dollar(const std::string& path, size_t& at, std::string& problem) {
  const size_t start = at + 1;
  if (start < path.size() && path[start] == '$') {
    at = start + 1;
    return "$";
  }
  const bool braced = start < path.size() && path[start] == '{';
  const size_t first = start + (braced ? 1 : 0);
  size_t end = first;
  if (end < path.size() && is_name_start(path[end])) {
    while (end < path.size() && is_name_part(path[end])) ++end;
  }
  const bool closed = !braced || (end < path.size() && path[end] == '}');
  if (end == first || !closed) {
    problem = "has a $ that begins no $NAME or ${NAME}; a dollar sign itself is written $$";
    at = path.size();
    return "";
  }
  at = end + (braced ? 1 : 0);
  const std::string name = path.substr(first, end - first);
  return variable(name, "names the environment variable " + name + ", which", problem);
}

}  // namespace

std::string expand_path(const std::string& path, std::string& problem) {
  problem.clear();
  std::string out;
  size_t at = 0;
  if (path.starts_with('~')) {
    const size_t end = path.find('/');
    const std::string user = path.substr(1, end == std::string::npos ? end : end - 1);
    if (!user.empty()) {
      problem = "begins with ~" + user + ", the home folder of another user, which is not looked " +
                "up; write the whole path, or ./~" + user + " for a folder of this name";
      return path;
    }
    out = variable("HOME", "begins with ~, and the environment variable HOME", problem);
    at = 1;
  }
  while (problem.empty() && at < path.size()) {
    if (path[at] == '$') {
      out += dollar(path, at, problem);
    } else {
      out += path[at++];
    }
  }
  return problem.empty() ? out : path;
}

std::string unexpanded(const std::string& path) {
  std::string out;
  if (path.starts_with('~')) out = "./";
  for (const char c : path) out += c == '$' ? "$$" : std::string(1, c);
  return out;
}

}  // namespace tessera
