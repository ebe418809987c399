#include "tessera/observe/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/observe/proto_message.h"

namespace tessera {
namespace {

constexpr const char* kPrefix = "events.out.tfevents.";

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82F63B78U : 0U);
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

template <typename T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Field numbers of event.proto and summary.proto.
ProtoMessage event_at(int64_t x, double wall_time) {
  ProtoMessage event;
  event.add_double(1, wall_time);
  event.add_varint(2, static_cast<uint64_t>(x));
  return event;
}

std::string scalar_value(const EventScalar& scalar) {
  ProtoMessage value;
  value.add_bytes(1, scalar.tag);
  value.add_float(2, static_cast<float>(scalar.value));
  return value.bytes();
}

// Bucket i holds what lies in (i - 0.5, i + 0.5].
std::string histogram_value(const EventHistogram& histogram) {
  std::vector<double> limits, counts;
  double number = 0, sum = 0, squares = 0;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    const auto at = static_cast<double>(i);
    const auto count = static_cast<double>(histogram.counts[i]);
    limits.push_back(at + 0.5);
    counts.push_back(count);
    number += count;
    sum += count * at;
    squares += count * at * at;
  }
  ProtoMessage data;
  data.add_double(1, -0.5);
  data.add_double(2, static_cast<double>(counts.size()) - 0.5);
  data.add_double(3, number);
  data.add_double(4, sum);
  data.add_double(5, squares);
  data.add_doubles(6, limits);
  data.add_doubles(7, counts);
  ProtoMessage value;
  value.add_bytes(1, histogram.tag);
  value.add_bytes(5, data.bytes());
  return value.bytes();
}

// The second of a new file's name: now, or later than those of all files of the folder.
int64_t second_of_name(const std::filesystem::path& folder) {
  int64_t second = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const int64_t other = std::strtoll(name.c_str() + std::strlen(kPrefix), nullptr, 10);
    if (other < 9'999'999'999) second = std::max(second, other + 1);
  }
  return second;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  }
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8U;
}

EventFile::EventFile(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  path_ = (std::filesystem::path(folder) /
           detail::concat(kPrefix, second_of_name(folder), ".", host, ".", ::getpid()))
              .string();
  errno = 0;
  file_.open(path_, std::ios::binary);
  if (error || !file_) {
    throw ConfigError(detail::concat(
        "monitor.tensorboard.output_dir = ", folder,
        ": cannot write to it: ", error ? error.message() : std::string(std::strerror(errno))));
  }
  ProtoMessage version;
  version.add_double(1, static_cast<double>(std::time(nullptr)));
  version.add_bytes(3, "brain.Event:2");
  add_record(version.bytes());
}

void EventFile::add_start(int64_t x, double wall_time) {
  ProtoMessage session;
  session.add_varint(1, 1);  // START
  ProtoMessage event = event_at(x, wall_time);
  event.add_bytes(7, session.bytes());
  add_record(event.bytes());
}

void EventFile::add_text(const std::string& tag, const std::string& markdown, int64_t x,
                         double wall_time) {
  ProtoMessage size, shape, tensor, plugin, metadata, value, summary;
  size.add_varint(1, 1);
  shape.add_bytes(2, size.bytes());
  tensor.add_varint(1, 7);  // DT_STRING
  tensor.add_bytes(2, shape.bytes());
  tensor.add_bytes(8, markdown);
  plugin.add_bytes(1, "text");
  metadata.add_bytes(1, plugin.bytes());
  metadata.add_varint(4, 2);  // DATA_CLASS_TENSOR
  value.add_bytes(1, tag);
  value.add_bytes(8, tensor.bytes());
  value.add_bytes(9, metadata.bytes());
  summary.add_bytes(1, value.bytes());
  ProtoMessage event = event_at(x, wall_time);
  event.add_bytes(5, summary.bytes());
  add_record(event.bytes());
}

void EventFile::add(const EventPoints& points) {
  ProtoMessage summary;
  for (const EventScalar& scalar : points.scalars) summary.add_bytes(1, scalar_value(scalar));
  for (const EventHistogram& histogram : points.histograms) {
    summary.add_bytes(1, histogram_value(histogram));
  }
  ProtoMessage event = event_at(points.x, points.wall_time);
  event.add_bytes(5, summary.bytes());
  add_record(event.bytes());
}

void EventFile::add_record(const std::string& bytes) {
  std::string length;
  put(length, static_cast<uint64_t>(bytes.size()));
  std::string record = length;
  put(record, masked_crc32c(length));
  record += bytes;
  put(record, masked_crc32c(bytes));
  file_.write(record.data(), static_cast<std::streamsize>(record.size()));
}

bool EventFile::flush() { return static_cast<bool>(file_.flush()); }

}  // namespace tessera
