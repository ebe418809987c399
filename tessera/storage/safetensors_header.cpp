#include "tessera/storage/safetensors_header.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/lfs_pointer.h"

namespace tessera {

namespace {

using nlohmann::json;

constexpr uint64_t kLargestHeader = 100'000'000;  // the limit of the reference implementation
constexpr std::string_view kMetadata = "__metadata__";

[[noreturn]] void damaged(const std::filesystem::path& file, const std::string& what) {
  throw CheckpointError(file.string() + ": not a sound safetensors file: " + what);
}

// elements * size of one, or none when it does not fit 63 bits.
std::optional<uint64_t> byte_count(const std::vector<int64_t>& shape, ElementType dtype) {
  auto bytes = static_cast<uint64_t>(size_of(dtype));
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) return std::nullopt;
  }
  if (bytes > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return bytes;
}

SafetensorsEntry parse_entry(const std::string& name, const json& value, uint64_t data_bytes,
                             const std::filesystem::path& file) {
  const auto fail = [&](const std::string& what) { damaged(file, "'" + name + "': " + what); };
  if (!value.is_object()) fail("its entry is not an object");
  const auto dtype = value.find("dtype");
  const auto shape = value.find("shape");
  const auto offsets = value.find("data_offsets");
  if (dtype == value.end() || !dtype->is_string()) fail("no dtype");
  if (shape == value.end() || !shape->is_array()) fail("no shape");
  if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
    fail("no data_offsets");
  }
  SafetensorsEntry entry;
  entry.name = name;
  const auto type = element_type_from(dtype->get_ref<const std::string&>());
  if (!type) fail("unknown dtype " + dtype->dump());
  entry.dtype = *type;
  for (const json& extent : *shape) {
    if (!extent.is_number_unsigned() || extent.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      fail("bad shape " + shape->dump());
    }
    entry.shape.push_back(extent.get<int64_t>());
  }
  entry.begin = (*offsets)[0].get<uint64_t>();
  entry.end = (*offsets)[1].get<uint64_t>();
  if (entry.begin > entry.end) fail("data_offsets " + offsets->dump() + " run backwards");
  if (entry.end > data_bytes) {
    fail("its data end at byte " + std::to_string(entry.end) + ", the file's data have " +
         std::to_string(data_bytes) + " (cut short?)");
  }
  const auto bytes = byte_count(entry.shape, entry.dtype);
  if (!bytes || *bytes != entry.bytes()) {
    fail("shape " + shape->dump() + " of " + dtype->dump() + " does not fill its data_offsets " +
         offsets->dump());
  }
  return entry;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes,
                                           const std::filesystem::path& file) {
  // Parsing recurses with the nesting: a sound header has three levels.
  const auto limited = [](int depth, json::parse_event_t, json&) {
    if (depth > 8) throw CheckpointError("nested too deeply");
    return true;
  };
  json root;
  try {
    root = json::parse(text.begin(), text.end(), limited);
  } catch (const std::exception& error) {
    damaged(file, std::string("its header: ") + error.what());
  }
  if (!root.is_object()) damaged(file, "its header is not a JSON object");
  SafetensorsHeader header;
  for (const auto& [name, value] : root.items()) {
    if (name != kMetadata) {
      header.entries.push_back(parse_entry(name, value, data_bytes, file));
      continue;
    }
    if (!value.is_object()) damaged(file, "__metadata__ is not an object");
    for (const auto& [key, text_value] : value.items()) {
      if (!text_value.is_string()) damaged(file, "__metadata__ holds more than text");
      header.metadata[key] = text_value.get<std::string>();
    }
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  // The format allows no holes.
  const auto nobodys = [&](uint64_t begin, uint64_t end) {
    if (begin == end) return;
    damaged(file, detail::concat("bytes ", begin, " to ", end, " of its data are in no tensor"));
  };
  uint64_t end = 0;
  for (size_t i = 0; i < header.entries.size(); ++i) {
    const SafetensorsEntry& entry = header.entries[i];
    if (entry.begin < end) {
      damaged(file, "'" + header.entries[i - 1].name + "' and '" + entry.name + "' share bytes");
    }
    nobodys(end, entry.begin);
    end = entry.end;
  }
  nobodys(end, data_bytes);
  return header;
}

SafetensorsHeaderFile read_safetensors_header(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& what) {
    throw CheckpointError(path.string() + ": " + what);
  };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail("not a file");
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(std::string("cannot be opened: ") + std::strerror(errno));
  if (const std::string problem = lfs_pointer_problem(path); !problem.empty()) fail(problem);
  SafetensorsHeaderFile file;
  file.path = path;
  file.bytes = std::filesystem::file_size(path, error);
  if (error) fail("cannot be read: " + error.message());
  if (file.bytes < 8) damaged(path, std::to_string(file.bytes) + " bytes");
  const auto read = [&](char* out, uint64_t count) {
    errno = 0;
    if (in.read(out, static_cast<std::streamsize>(count))) return;
    fail(std::string("its header cannot be read: ") +
         (errno == 0 ? "the file ends early" : std::strerror(errno)));
  };
  unsigned char length_bytes[8];
  read(reinterpret_cast<char*>(length_bytes), 8);
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | length_bytes[i];
  if (length > kLargestHeader || length > file.bytes - 8) {
    damaged(path, detail::concat("header of ", length, " bytes in a file of ", file.bytes));
  }
  std::string text(length, '\0');
  read(text.data(), length);
  file.data_start = 8 + length;
  SafetensorsHeader header = parse_safetensors_header(text, file.bytes - file.data_start, path);
  file.metadata = std::move(header.metadata);
  for (SafetensorsEntry& entry : header.entries) {
    std::string name = entry.name;
    file.entries.emplace(std::move(name), std::move(entry));
  }
  return file;
}

std::string format_safetensors_header(SafetensorsHeader& header) {
  json root = json::object();
  if (!header.metadata.empty()) root[std::string(kMetadata)] = header.metadata;
  uint64_t place = 0;
  for (SafetensorsEntry& entry : header.entries) {
    const auto bytes = byte_count(entry.shape, entry.dtype);
    TESSERA_CHECK(bytes, entry.name, ": cannot be written as safetensors");
    entry.begin = place;
    entry.end = place += *bytes;
    TESSERA_CHECK(!root.contains(entry.name), entry.name, ": named twice");
    root[entry.name] = {{"dtype", name_of(entry.dtype)},
                        {"shape", entry.shape},
                        {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = root.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i) & 0xFF);
  }
  return bytes + text;
}

}  // namespace tessera
