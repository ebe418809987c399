#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

/// Bytes that come one after another and can be read once: a file, a pipe, what a decoder makes.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills `out` from its front and returns how many bytes it wrote: fewer than asked for when no
  /// more are there at the moment, 0 only at the end. Throws ConfigError naming the input.
  virtual size_t read(std::span<char> out) = 0;
};

/// A path, or "-" for standard input. Pipes and devices are read as files are.
class FileSource : public ByteSource {
 public:
  /// Throws ConfigError: nothing there, a folder, no right to read.
  explicit FileSource(const std::string& path);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  size_t read(std::span<char> out) override;
  /// Bytes read so far.
  int64_t position() const { return position_; }

 private:
  std::string name_;
  int fd_ = -1;
  int64_t position_ = 0;
};

/// Shows the first bytes of another source before it gives them out.
class PeekedSource : public ByteSource {
 public:
  /// Reads up to `head_bytes` of `inner` at once.
  PeekedSource(std::unique_ptr<ByteSource> inner, size_t head_bytes);
  size_t read(std::span<char> out) override;
  std::string_view head() const { return head_; }
  /// Whether the source has no bytes beyond head().
  bool head_is_all() const { return head_is_all_; }

 private:
  std::unique_ptr<ByteSource> inner_;
  std::string head_;
  size_t given_ = 0;  // of head_
  bool head_is_all_ = false;
};

/// How messages call an input: its path, or "standard input".
std::string input_name(const std::string& path);

}  // namespace tessera
