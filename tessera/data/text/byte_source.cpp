#include "tessera/data/text/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {

namespace {

[[noreturn]] void fail(const std::string& name, const char* what, int error) {
  throw ConfigError(name + ": " + what + ": " + std::strerror(error));
}

}  // namespace

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : path; }

FileSource::FileSource(const std::string& path) : name_(input_name(path)) {
  if (path == "-") {
    fd_ = ::dup(STDIN_FILENO);
  } else {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  if (fd_ < 0) fail(name_, "cannot open", errno);
  struct stat status {};
  int error = ::fstat(fd_, &status) != 0 ? errno : 0;
  if (error == 0 && S_ISDIR(status.st_mode)) error = EISDIR;
  if (error == 0) return;
  ::close(fd_);
  fail(name_, "cannot read", error);
}

FileSource::~FileSource() { ::close(fd_); }

size_t FileSource::read(std::span<char> out) {
  for (;;) {
    const ssize_t got = ::read(fd_, out.data(), out.size());
    if (got >= 0) {
      position_ += got;
      return static_cast<size_t>(got);
    }
    if (errno != EINTR) fail(name_, "cannot read", errno);
  }
}

PeekedSource::PeekedSource(std::unique_ptr<ByteSource> inner, size_t head_bytes)
    : inner_(std::move(inner)), head_(head_bytes, '\0') {
  size_t filled = 0;
  while (filled < head_.size() && !head_is_all_) {
    const size_t got = inner_->read(std::span(head_).subspan(filled));
    filled += got;
    head_is_all_ = got == 0;
  }
  head_.resize(filled);
}

size_t PeekedSource::read(std::span<char> out) {
  if (given_ == head_.size()) return head_is_all_ ? 0 : inner_->read(out);
  const size_t count = std::min(out.size(), head_.size() - given_);
  std::copy_n(head_.data() + given_, count, out.data());
  given_ += count;
  return count;
}

}  // namespace tessera
