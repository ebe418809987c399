#include "tessera/storage/iteration_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/storage/manifest.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kIteration = "iteration_";
constexpr std::string_view kWriting = ".writing";
constexpr std::string_view kRemoving = ".removing";
constexpr const char* kNextPointer = "latest_checkpointed_iteration.txt.writing";
constexpr const char* kLockName = ".lock";
constexpr std::chrono::milliseconds kLook{20};  // of one who waits for the lock

std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw CheckpointError(path.string() + ": " + what + ": " + std::strerror(errno));
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(from, "cannot be renamed to " + to.string());
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw CheckpointError(path.string() + ": cannot be removed: " + error.message());
}

std::string first_line(const fs::path& path) {
  std::string line;
  std::ifstream in(path);
  std::getline(in, line);
  return line;
}

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string pointer_text(int64_t step) { return std::to_string(step) + "\n"; }

std::optional<int64_t> number_in(const fs::path& file) {
  std::string text = first_line(file);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return number_of(text);
}

// Whether some start of a run still has the folder in which it wrote the checkpoint called `name`.
bool is_being_written(const fs::path& root, const std::string& name) {
  std::error_code error;
  for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
    const std::string other = at->path().filename().string();
    if (other.starts_with(name + ".") && other.ends_with(kWriting)) return true;
  }
  return false;
}

// The step of a checkpoint that has its name, and that a run which was ended did not come to point
// at.
std::optional<int64_t> published_and_not_pointed_at(const fs::path& root) {
  const auto step = number_in(root / kNextPointer);
  if (!step || text_of(root / kNextPointer) != pointer_text(*step)) return std::nullopt;
  std::error_code error;
  const fs::path folder = root / iteration_name(*step);
  const bool has_name =
      fs::exists(folder / kManifestName, error) && !is_being_written(root, iteration_name(*step));
  return has_name ? step : std::nullopt;
}

// Differs from that of every other process, of this host or another.
std::string this_process() {
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  const std::time_t seconds = since / 1'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[400], time[32];
  std::strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S", &utc);
  std::snprintf(text, sizeof(text), "process %d on %s since %s.%06ld UTC", ::getpid(), host, time,
                static_cast<long>(since % 1'000'000));
  return text;
}

}  // namespace

fs::path plain_path(const fs::path& path) {
  const fs::path plain = path.lexically_normal();
  return plain.has_filename() ? plain : plain.parent_path();
}

std::string iteration_name(int64_t step) {
  char text[40];
  std::snprintf(text, sizeof(text), "iteration_%08ld", static_cast<long>(step));
  return text;
}

std::string rank_file_name(const std::optional<std::string>& prefix, const std::string& kind,
                           int rank, int world) {
  char numbers[40];
  std::snprintf(numbers, sizeof(numbers), "-%07d-%07d.safetensors", rank, world);
  return (prefix && !prefix->empty() ? *prefix + "-" : "") + kind + numbers;
}

std::vector<int64_t> list_iterations(const fs::path& root) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kIteration) || name.size() < kIteration.size() + 8) continue;
    const auto step = number_of(std::string_view(name).substr(kIteration.size()));
    if (step && at->is_directory(error)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::optional<int64_t> read_pointer(const fs::path& root) {
  const auto next = published_and_not_pointed_at(root);
  return next ? next : number_in(root / kPointerName);
}

fs::path writing_folder(const fs::path& root, int64_t step, const Generation& generation) {
  const std::string start =
      generation.counted() ? ".generation_" + std::to_string(generation.number) : "";
  return root / (iteration_name(step) + start + std::string(kWriting));
}

fs::path begin_iteration(const fs::path& root, int64_t step, const Generation& generation) {
  const fs::path folder = writing_folder(root, step, generation);
  remove_tree(folder);
  if (::mkdir(folder.c_str(), 0777) != 0) fail(folder, "cannot be created");
  return folder;
}

namespace {

// `writing` gets the name `final_name`; what has it now is moved to `removing`.
void give_name(const fs::path& writing, const fs::path& final_name, const fs::path& removing,
               const Generation& generation) {
  const fs::path root = final_name.parent_path();
  if (!fs::exists(final_name)) {
    check_generation(root, generation);
    rename_or_throw(writing, final_name);
    return;
  }
  // Both change places in one go; a file system that cannot makes a gap of two renames.
  remove_tree(removing);
  check_generation(root, generation);
  if (::renameat2(AT_FDCWD, writing.c_str(), AT_FDCWD, final_name.c_str(), RENAME_EXCHANGE) == 0) {
    rename_or_throw(writing, removing);
  } else {
    rename_or_throw(final_name, removing);
    rename_or_throw(writing, final_name);
  }
}

}  // namespace

void publish_iteration(const fs::path& root, int64_t step, const Generation& generation) {
  const fs::path final_name = root / iteration_name(step);
  const fs::path writing = writing_folder(root, step, generation);
  const fs::path removing = final_name.string() + std::string(kRemoving);
  flush_folder(writing);
  check_generation(root, generation);
  // The next pointer comes first: where it waits beside a complete checkpoint of its step, a run
  // was ended just before it moved the pointer.
  write_file_durably(root / kNextPointer, pointer_text(step));
  try {
    give_name(writing, final_name, removing, generation);
  } catch (...) {
    std::error_code ignored;
    const bool ours = !generation.counted() || read_generation(root) == generation;
    if (ours) fs::remove(root / kNextPointer, ignored);
    throw;
  }
  flush_folder(root);
  check_generation(root, generation);
  rename_or_throw(root / kNextPointer, root / kPointerName);
  flush_folder(root);
  remove_tree(removing);
}

void remove_iteration(const fs::path& root, int64_t step) {
  const fs::path folder = root / iteration_name(step);
  if (!fs::exists(folder)) return;
  const fs::path removing = root / (iteration_name(step) + std::string(kRemoving));
  remove_tree(removing);
  rename_or_throw(folder, removing);
  remove_tree(removing / kManifestName);  // first: what has none is not whole
  remove_tree(removing);
}

std::vector<std::string> remove_leftovers(const fs::path& root) {
  if (published_and_not_pointed_at(root)) {
    rename_or_throw(root / kNextPointer, root / kPointerName);
    flush_folder(root);
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with(kIteration) || name.starts_with(kPointerName);
    if (ours && (name.ends_with(kWriting) || name.ends_with(kRemoving))) names.push_back(name);
  }
  std::erase_if(names, [&](const std::string& name) {
    const fs::path original = root / fs::path(name).stem();
    if (!name.ends_with(kRemoving) || fs::exists(original)) return false;
    if (!fs::exists(root / name / kManifestName)) return false;
    // Without a successor that waits for the name, it was being removed.
    const bool succeeded = is_being_written(root, original.filename().string());
    const auto pointed = read_pointer(root);
    if (!succeeded && pointed && fs::exists(root / iteration_name(*pointed))) return false;
    rename_or_throw(root / name, original);  // its successor never got the name
    return true;
  });
  for (const std::string& name : names) remove_tree(root / name);
  return names;
}

void write_file_durably(const fs::path& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) fail(path, "cannot be written");
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int why = errno;
      ::close(file);
      errno = why;
      fail(path, "cannot be written");
    }
    done += static_cast<size_t>(written);
  }
  const bool flushed = ::fsync(file) == 0;
  const int why = errno;
  if (::close(file) != 0 || !flushed) {
    if (!flushed) errno = why;
    fail(path, "cannot be written");
  }
}

void flush_folder(const fs::path& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) fail(folder, "cannot be opened");
  // Some file systems have nothing to flush for a folder and say so.
  const bool failed = ::fsync(file) != 0 && errno != EINVAL && errno != ENOTSUP;
  const int why = errno;
  ::close(file);
  errno = why;
  if (failed) fail(folder, "cannot be flushed");
}

FolderLock::FolderLock(const fs::path& root, int (*lock)(int, int),
                       std::chrono::milliseconds patience)
    : path_(root / kLockName) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::error_code error;
  fs::create_directories(root, error);
  if (error) throw CheckpointError(root.string() + ": cannot be created: " + error.message());
  while (true) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail(path_, "cannot be written");
    if (lock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP) {
        log_warning(root.string() + ": the file system has no locks (" + std::strerror(errno) +
                    "); that no other run saves there is not checked");
        break;
      }
      const bool taken = errno == EWOULDBLOCK;
      const int why = errno;
      ::close(descriptor_);
      errno = why;
      if (!taken) fail(path_, "cannot be locked");
      if (std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(kLook);
        continue;
      }
      throw CheckpointError(root.string() + ": another run is saving there (" + first_line(path_) +
                            "); give this one a checkpoint.save_path of its own");
    }
    // Its holder may have removed the file between our open and our lock.
    struct stat ours {
    }, there{};
    if (::fstat(descriptor_, &ours) == 0 && ::stat(path_.c_str(), &there) == 0 &&
        ours.st_ino == there.st_ino) {
      break;
    }
    ::close(descriptor_);
  }
  holder_ = this_process();
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::pwrite(descriptor_, holder_.data(), holder_.size(), 0) !=
          static_cast<ssize_t>(holder_.size()) ||
      ::fsync(descriptor_) != 0) {  // so that other hosts read it
    const int why = errno;
    ::unlink(path_.c_str());
    ::close(descriptor_);
    errno = why;
    fail(path_, "cannot be written");
  }
}

bool FolderLock::is_held_by(const fs::path& root, const std::string& holder) {
  return first_line(root / kLockName) == holder;
}

FolderLock::~FolderLock() {
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace tessera
