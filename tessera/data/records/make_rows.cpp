#include "tessera/data/records/make_rows.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/data/chat/row_packer.h"
#include "tessera/data/hash.h"
#include "tessera/data/inspect.h"
#include "tessera/data/mapped_file.h"
#include "tessera/data/mask_file.h"
#include "tessera/data/records/row_maker.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFormat = "tessera rows 1\n";

uint64_t content_of(const std::string& path, uint64_t seed) {
  const MappedFile file(path);
  return checksum64(file.data(), file.size(), seed);
}

std::string tokenizer_file(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) ? (fs::path(path) / "tokenizer.json").string() : path;
}

std::string key_of(const RowsOptions& options) {
  std::string text =
      detail::concat(kFormat, options.kind, '\n', options.chat_template, '\n', options.packing,
                     options.drop_too_long, '\n', options.seq_length, '\n', options.size, '\n');
  for (const RecordHandler& handler : options.handlers) {
    text += handler.type + "\n";
    for (const auto& [name, values] : handler.args) {
      text += name + "\n";
      for (const std::string& value : values) text += value + "\n";
    }
  }
  uint64_t key = checksum64(reinterpret_cast<const std::byte*>(text.data()),
                            static_cast<int64_t>(text.size()));
  const std::string tokenizer = tokenizer_file(options.tokenizer);
  key = content_of(tokenizer, key);
  for (const char* beside : {"tokenizer_config.json", "chat_template.jinja"}) {
    const std::string path = (fs::path(tokenizer).parent_path() / beside).string();
    std::error_code error;
    if (fs::is_regular_file(path, error)) key = content_of(path, key);
  }
  for (const std::string& file : options.files) key = content_of(file, key);
  char name[32];
  std::snprintf(name, sizeof(name), "rows_%016llx", static_cast<unsigned long long>(key));
  return name;
}

// Only one process on the host makes the rows. Where files cannot be locked, each makes them: what
// is put in place is whole and the same.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path)
      : file_(::open(path.c_str(), O_CREAT | O_RDWR, 0666)) {
    if (file_ < 0) throw ConfigError(path + ": cannot be written: " + std::strerror(errno));
    while (::flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() { ::close(file_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_;
};

void write_rows(const RowsOptions& options, const std::string& prefix) {
  const bool alpaca = std::ranges::any_of(options.handlers, [](const RecordHandler& handler) {
    return handler.type == "AlpacaInstructDataHandler";
  });
  RowMaker maker(options.tokenizer, options.chat_template, alpaca);
  const int64_t vocab_size = maker.tokenizer().vocab_size();
  const int64_t capacity = options.seq_length + 1;
  RowWriter rows(prefix, token_dtype_for(vocab_size), capacity, options.packing);
  int64_t records = 0, cut = 0, dropped = 0, empty = 0;
  std::string first_empty;
  handled_records(options.kind, options.files, options.handlers, [&](Record&& record) {
    if (options.size > 0 && records == options.size) return false;
    ++records;
    std::optional<ChatTokens> row = maker.make(record);
    if (row && static_cast<int64_t>(row->ids.size()) > capacity) {
      ++(options.drop_too_long ? dropped : cut);
      if (options.drop_too_long) return true;
      row->ids.resize(static_cast<size_t>(capacity));
      row->counts.resize(static_cast<size_t>(capacity));
    }
    if (!row || row->ids.size() < 2 ||
        std::find(row->counts.begin() + 1, row->counts.end(), 1) == row->counts.end()) {
      record.place.why = "nothing in this record counts as a label";
      if (empty++ == 0) first_empty = to_string(record.place);
      return true;
    }
    rows.add(std::move(*row));
    return true;
  });
  std::string left_out;
  if (cut > 0) left_out += detail::concat("; ", cut, " longer than a row were cut");
  if (dropped > 0) left_out += detail::concat("; ", dropped, " longer than a row were dropped");
  if (empty > 0) {
    left_out +=
        detail::concat("; ", empty, " without an answer left out, the first: ", first_empty);
  }
  if (records - dropped - empty == 0) {
    throw ConfigError(detail::concat("the data files hold no record to learn from (", records,
                                     " read", left_out, ")"));
  }
  rows.finish();
  log_info(detail::concat(prefix, ": ", records, " records in ", rows.row_count(), " rows, ",
                          rows.token_count(), " tokens", left_out));
}

}  // namespace

std::string cache_folder() {
  for (const auto& [variable, below] :
       {std::pair{"XDG_CACHE_HOME", "tessera"}, std::pair{"HOME", ".cache/tessera"}}) {
    const char* base = std::getenv(variable);
    if (!base || *base == '\0') continue;
    const fs::path folder = fs::path(base) / below;
    std::error_code error;
    fs::create_directories(folder, error);
    if (!error && ::access(folder.c_str(), W_OK) == 0) return folder.string();
  }
  return "/tmp/tessera-" + std::to_string(::getuid());
}

std::string make_rows(const RowsOptions& options) {
  for (const std::string& file : options.files) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) throw ConfigError(file + ": no such file");
  }
  const JsonTokenizer tokenizer(options.tokenizer);
  if (options.vocab_size > 0 && tokenizer.vocab_size() > options.vocab_size) {
    throw ConfigError(detail::concat(options.tokenizer, ": the tokenizer has ",
                                     tokenizer.vocab_size(), " tokens, model.vocab_size is ",
                                     options.vocab_size));
  }
  const std::string folder = options.cache_dir.empty() ? cache_folder() : options.cache_dir;
  std::error_code error;
  fs::create_directories(folder, error);  // the lock says what is wrong
  const std::string prefix = (fs::path(folder) / key_of(options)).string();
  const auto there = [&] { return is_token_file(prefix) && is_token_file(mask_prefix(prefix)); };
  if (there()) return prefix;
  const FolderLock lock(prefix + ".lock");
  if (!there()) write_rows(options, prefix);
  return prefix;
}

}  // namespace tessera
