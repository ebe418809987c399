#include "tessera/storage/manifest.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/config/issue.h"
#include "tessera/config/yaml/value.h"
#include "tessera/storage/block_sums.h"
#include "tessera/storage/tiling.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "tessera-checkpoint";
constexpr int kFormatVersion = 1;
constexpr std::string_view kSumKey = ",\"manifest_checksum\":\"";
constexpr std::string_view kTail = "\"}\n";

// Numbers as they are written: none is rounded, and none loses its sign.
int64_t integer(const json& value) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))) {
    throw std::invalid_argument(value.dump() + " is no integer");
  }
  return value.get<int64_t>();
}

uint64_t count(const json& value) {
  const int64_t number = integer(value);
  if (number < 0) throw std::invalid_argument(value.dump() + " is negative");
  return static_cast<uint64_t>(number);
}

std::vector<int64_t> integers(const json& list) {
  if (!list.is_array()) throw std::invalid_argument(list.dump() + " is no list");
  std::vector<int64_t> numbers;
  for (const json& value : list) numbers.push_back(integer(value));
  return numbers;
}

// Place and count of samples; a manifest of an earlier version has none.
std::vector<std::pair<int64_t, int64_t>> ranges_of(const json& root, const char* key) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  if (!root.contains(key)) return ranges;
  for (const json& range : root.at(key)) {
    ranges.emplace_back(integer(range.at(0)), integer(range.at(1)));
    if (ranges.back().first < 0 || ranges.back().second < 1) {
      throw std::invalid_argument(range.dump() + " is no range of samples");
    }
  }
  return ranges;
}

json to_json(const std::vector<StoredFile>& files) {
  json list = json::array();
  for (const StoredFile& file : files) {
    list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sums", to_hex(file.sums)}});
  }
  return list;
}

std::vector<StoredFile> files_of(const json& list) {
  std::vector<StoredFile> files;
  for (const json& item : list) {
    StoredFile file;
    file.name = item.at("name").get<std::string>();
    if (file.name.empty() || std::filesystem::path(file.name).filename() != file.name) {
      throw std::invalid_argument("'" + file.name + "' is no name of a file");
    }
    file.bytes = count(item.at("bytes"));
    file.sums = from_hex(item.at("sums").get_ref<const std::string&>());
    files.push_back(std::move(file));
  }
  return files;
}

json to_json(const std::map<std::string, StoredTensor>& tensors) {
  json all = json::object();
  for (const auto& [name, tensor] : tensors) {
    json parts = json::array();
    for (const StoredPart& part : tensor.parts) {
      parts.push_back({part.file, part.offset, part.box.offsets, part.box.sizes});
    }
    all[name] = {
        {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}, {"parts", std::move(parts)}};
  }
  return all;
}

std::map<std::string, StoredTensor> tensors_of(const json& all) {
  std::map<std::string, StoredTensor> tensors;
  for (const auto& [name, item] : all.items()) {
    StoredTensor& tensor = tensors[name];
    const auto dtype = element_type_from(item.at("dtype").get_ref<const std::string&>());
    if (!dtype) throw std::invalid_argument("'" + name + "': unknown dtype");
    tensor.dtype = *dtype;
    tensor.shape = integers(item.at("shape"));
    for (const json& part : item.at("parts")) {
      tensor.parts.push_back(
          {count(part.at(0)), count(part.at(1)), {integers(part.at(2)), integers(part.at(3))}});
    }
  }
  return tensors;
}

void check_tensor(const std::string& name, const StoredTensor& tensor,
                  const std::vector<StoredFile>& files) {
  const auto fail = [&](const std::string& what) {
    throw std::invalid_argument("'" + name + "': " + what);
  };
  std::vector<Box> boxes;
  for (const StoredPart& part : tensor.parts) boxes.push_back(part.box);
  if (const std::string problem = tiling_problem(tensor.shape, boxes); !problem.empty()) {
    fail(problem);
  }
  const auto element = static_cast<uint64_t>(size_of(tensor.dtype));
  for (const StoredPart& part : tensor.parts) {
    const auto elements = static_cast<uint64_t>(part.box.numel());
    if (part.file >= files.size() || part.offset > files[part.file].bytes ||
        elements > (files[part.file].bytes - part.offset) / element) {
      fail("a part outside its file");
    }
  }
}

[[noreturn]] void damaged(const std::filesystem::path& file, const std::string& what) {
  throw CheckpointError(file.string() + ": damaged: " + what);
}

}  // namespace

std::string manifest_text(const Manifest& m) {
  const json root = {
      {"format", kFormat},
      {"format_version", kFormatVersion},
      {"version", m.version},
      {"step", m.position.step},
      {"samples", m.position.samples},
      {"updates", m.position.updates},
      {"effective_batch", m.position.effective_batch},
      {"place", m.position.place},
      {"skipped_in_row", m.position.skipped_in_row},
      {"skipped", m.position.skipped},
      {"skipped_ranges", m.position.skipped_ranges},
      {"left_out", m.position.left_out},
      {"norms", m.position.norms},
      {"data", m.position.data},
      {"schedule", m.position.schedule},
      {"random", m.position.random},
      {"layout", m.position.layout},
      {"config", m.config},
      {"optimizer", m.optimizer},
      {"moment_dtype", m.moment_dtype},
      {"moment_codec", m.moment_codec},
      {"tokenizer", m.tokenizer},
      {"job", m.job},
      {"base", m.base},
      {"generation", m.generation},
      {"kept", m.kept},
      {"superseded", m.superseded},
      {"block_bytes", kSumBlock},
      {"files", to_json(m.files)},
      {"copies", to_json(m.copies)},
      {"weights", to_json(m.weights)},
      {"state", to_json(m.state)},
  };
  std::string text = root.dump(-1, ' ', false, json::error_handler_t::replace);
  const uint64_t sum = block_sum(text.data(), text.size());
  text.pop_back();  // the closing brace
  return text.append(kSumKey).append(to_hex({sum})).append(kTail);
}

Manifest parse_manifest(const std::string& text, const std::filesystem::path& file) {
  const size_t tail = kSumKey.size() + 16 + kTail.size();
  const size_t end = text.size() - std::min(tail, text.size());
  const std::string body = text.substr(0, end) + "}";
  if (text.substr(end) !=
      std::string(kSumKey) + to_hex({block_sum(body.data(), body.size())}) + std::string(kTail)) {
    damaged(file, "its checksum differs");
  }
  try {
    const json root = json::parse(body);
    if (root.at("format") != kFormat) damaged(file, "not the manifest of a checkpoint");
    if (root.at("format_version") != kFormatVersion) {
      throw CheckpointError(file.string() + ": written by version " +
                            root.at("version").get<std::string>() +
                            ", whose checkpoints this program does not know");
    }
    Manifest m;
    m.version = root.at("version").get<std::string>();
    m.position.step = integer(root.at("step"));
    m.position.samples = integer(root.at("samples"));
    m.position.updates = integer(root.at("updates"));
    m.position.effective_batch = integer(root.at("effective_batch"));
    const auto number_or = [&root](const char* key, int64_t otherwise) {
      return root.contains(key) ? integer(root.at(key)) : otherwise;
    };
    m.position.place = number_or("place", -1);
    m.position.skipped_in_row = number_or("skipped_in_row", 0);
    m.position.skipped = number_or("skipped", 0);
    m.position.skipped_ranges = ranges_of(root, "skipped_ranges");
    m.position.left_out = ranges_of(root, "left_out");
    m.position.norms = root.value("norms", std::vector<double>());
    m.position.data = root.at("data").get<std::map<std::string, std::string>>();
    m.position.schedule = root.at("schedule").get<std::map<std::string, std::string>>();
    m.position.random = root.at("random").get<std::map<std::string, std::string>>();
    m.position.layout = root.at("layout").get<std::map<std::string, std::string>>();
    m.config = root.at("config").get<std::string>();
    m.optimizer = root.at("optimizer").get<std::string>();
    m.moment_dtype = root.value("moment_dtype", "float32");
    m.moment_codec = number_or("moment_codec", m.moment_dtype == "int8" ? 1 : 0);
    m.tokenizer = root.at("tokenizer").get<std::string>();
    m.job = root.value("job", "");
    m.base = root.value("base", "");
    m.generation = number_or("generation", 0);
    m.kept = integers(root.at("kept"));
    m.superseded = integers(root.value("superseded", json::array()));
    if (m.position.step < 0 || m.position.effective_batch < 1)
      damaged(file, "its place in the data");
    if (root.at("block_bytes") != kSumBlock) damaged(file, "checksums of other blocks");
    m.files = files_of(root.at("files"));
    m.copies = files_of(root.at("copies"));
    m.weights = tensors_of(root.at("weights"));
    m.state = tensors_of(root.at("state"));
    for (const auto* tensors : {&m.weights, &m.state}) {
      for (const auto& [name, tensor] : *tensors) check_tensor(name, tensor, m.files);
    }
    return m;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    damaged(file, error.what());
  }
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifestName;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw CheckpointError(path.string() + ": not there: this checkpoint is not complete");
  }
  std::ostringstream text;
  text << in.rdbuf();
  return parse_manifest(text.str(), path);
}

std::string base_path_of(const Manifest& manifest) {
  std::vector<Issue> ignored;
  const Value root = parse_document(manifest.config, kManifestName, ignored);
  const Value* checkpoint = root.find("checkpoint");
  const Value* path = checkpoint ? checkpoint->find("base_load_path") : nullptr;
  return path ? path->text : "";
}

std::string fragment_text(const Manifest& fragment) {
  return json{{"files", to_json(fragment.files)},
              {"copies", to_json(fragment.copies)},
              {"weights", to_json(fragment.weights)},
              {"state", to_json(fragment.state)}}
      .dump();
}

void merge_fragment(Manifest& manifest, const std::string& text) {
  const json root = json::parse(text);
  const size_t before = manifest.files.size();
  for (StoredFile& file : files_of(root.at("files"))) manifest.files.push_back(std::move(file));
  for (StoredFile& file : files_of(root.at("copies"))) manifest.copies.push_back(std::move(file));
  const auto merge = [&](std::map<std::string, StoredTensor>& into, const char* key) {
    for (auto& [name, tensor] : tensors_of(root.at(key))) {
      StoredTensor& known =
          into.try_emplace(name, StoredTensor{tensor.dtype, tensor.shape, {}}).first->second;
      TESSERA_CHECK(known.dtype == tensor.dtype && known.shape == tensor.shape, name,
                    " has another shape or dtype on another rank");
      for (StoredPart& part : tensor.parts) {
        part.file += before;
        known.parts.push_back(std::move(part));
      }
    }
  };
  merge(manifest.weights, "weights");
  merge(manifest.state, "state");
}

}  // namespace tessera
