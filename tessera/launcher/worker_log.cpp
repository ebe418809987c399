#include "tessera/launcher/worker_log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <vector>

namespace tessera {
namespace {

constexpr std::string_view kErrorMark = "error: ";
constexpr int64_t kEndBytes = 64 << 10;

void write_all(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (written < 0) {
      if (errno == EINTR) continue;
      return;  // nobody reads: the log file has it
    }
    done += static_cast<size_t>(written);
  }
}

std::string join(const std::vector<std::string>& lines, size_t begin, size_t end) {
  std::string text;
  for (size_t i = begin; i < end; ++i) {
    if (i > begin) text += '\n';
    text += lines[i];
  }
  return text;
}

}  // namespace

LogEnd read_log_end(const std::string& path, int lines) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const int64_t size = file.tellg();
  const int64_t begin = std::max<int64_t>(0, size - kEndBytes);
  file.seekg(begin);
  std::vector<std::string> all;
  for (std::string line; std::getline(file, line);) all.push_back(line);
  if (begin > 0 && !all.empty()) all.erase(all.begin());  // cut in the middle

  size_t error = all.size();
  for (size_t i = all.size(); i-- > 0;) {
    if (all[i].starts_with(kErrorMark)) {
      error = i;
      break;
    }
  }
  const size_t most = static_cast<size_t>(lines);
  return {join(all, error > most ? error - most : 0, error),
          join(all, error, std::min(all.size(), error + most))};
}

LogEcho::LogEcho(std::string path, std::string prefix)
    : path_(std::move(path)), prefix_(std::move(prefix)) {}

void LogEcho::poll() {
  std::ifstream file(path_, std::ios::binary);
  if (!file) return;
  file.seekg(offset_);
  std::string chunk(64 << 10, '\0');
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    pending_.append(chunk, 0, static_cast<size_t>(file.gcount()));
    offset_ += file.gcount();
    copy_lines(false);
  }
}

void LogEcho::finish() {
  poll();
  copy_lines(true);
}

void LogEcho::copy_lines(bool all) {
  std::string out;
  size_t begin = 0;
  while (begin < pending_.size()) {
    const size_t end = pending_.find('\n', begin);
    if (end == std::string::npos && !all) break;
    const std::string_view line(pending_.data() + begin, std::min(end, pending_.size()) - begin);
    if (line.starts_with(kErrorMark)) holding_ = true;
    if (holding_ && !all) break;
    out += prefix_;
    out += line;
    out += '\n';
    begin = end == std::string::npos ? pending_.size() : end + 1;
  }
  pending_.erase(0, begin);
  write_all(out);
}

}  // namespace tessera
