#pragma once

// Reads event files without the code that writes them.

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera::testing_events {

// Bit by bit, from the polynomial: not the table of the writer.
inline uint32_t slow_masked_crc(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t out =
          (crc ^ (static_cast<uint32_t>(static_cast<unsigned char>(c)) >> bit)) & 1;
      crc = (crc >> 1) ^ (out != 0 ? 0x82F63B78 : 0);
    }
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8;
}

template <typename T>
T number_at(const std::string& bytes, size_t at) {
  T value;
  if (at + sizeof(T) > bytes.size()) throw std::runtime_error("cut");
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// The messages of a file; throws where a length or a sum is wrong.
inline std::vector<std::string> records_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> records;
  for (size_t at = 0; at < all.size();) {
    const auto length = number_at<uint64_t>(all, at);
    if (number_at<uint32_t>(all, at + 8) != slow_masked_crc(all.substr(at, 8))) {
      throw std::runtime_error("sum of a length");
    }
    const std::string bytes = all.substr(at + 12, length);
    if (number_at<uint32_t>(all, at + 12 + length) != slow_masked_crc(bytes)) {
      throw std::runtime_error("sum of a record");
    }
    records.push_back(bytes);
    at += 16 + length;
  }
  return records;
}

// Fields of a message: by number, the raw value (varints and fixed ones as 8 bytes).
using Fields = std::multimap<uint64_t, std::string>;
inline Fields fields_of(const std::string& bytes) {
  Fields fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.size()) {
    const uint64_t key = varint();
    std::string value;
    if ((key & 7) == 0) {
      const uint64_t number = varint();
      value.assign(reinterpret_cast<const char*>(&number), 8);
    } else {
      const uint64_t size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint();
      value = bytes.substr(at, size);
      at += size;
    }
    fields.emplace(key >> 3, value);
  }
  return fields;
}

struct Events {
  std::map<std::string, std::map<int64_t, float>> scalars;  // by tag and x
  std::map<std::string, std::map<int64_t, std::vector<double>>> histograms;
  std::map<std::string, std::string> texts;
  std::vector<int64_t> starts;

  // Adds a file as a reader of TensorBoard does: a start drops what lies at and after its x.
  void read(const std::string& path) {
    for (const std::string& record : records_of(path)) {
      const Fields event = fields_of(record);
      const auto x_field = event.find(2);
      const int64_t x = x_field == event.end() ? 0 : number_at<int64_t>(x_field->second, 0);
      if (event.contains(7)) {
        starts.push_back(x);
        for (auto& [tag, curve] : scalars) curve.erase(curve.lower_bound(x), curve.end());
        for (auto& [tag, curve] : histograms) curve.erase(curve.lower_bound(x), curve.end());
      }
      if (!event.contains(5)) continue;
      const Fields summary = fields_of(event.find(5)->second);
      for (const auto& [number, bytes] : summary) add(fields_of(bytes), x);
    }
  }

 private:
  void add(const Fields& value, int64_t x) {
    const std::string tag = value.find(1)->second;
    if (value.contains(2)) {
      if (!scalars[tag].emplace(x, number_at<float>(value.find(2)->second, 0)).second) {
        throw std::runtime_error(tag + " is drawn twice at " + std::to_string(x));
      }
    }
    if (value.contains(5)) {
      const std::string counts = fields_of(value.find(5)->second).find(7)->second;
      for (size_t at = 0; at < counts.size(); at += 8) {
        histograms[tag][x].push_back(number_at<double>(counts, at));
      }
    }
    if (value.contains(8)) texts[tag] = fields_of(value.find(8)->second).find(8)->second;
  }
};

}  // namespace tessera::testing_events
