#include "tessera/storage/checkpoint_choice.h"

#include <algorithm>
#include <set>

#include "tessera/base/error.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/storage/iteration_folder.h"
#include "tessera/storage/name_lists.h"
#include "tessera/storage/other_folders.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDamagedName = "damaged.txt";

}  // namespace

void mark_damaged(const fs::path& folder, const std::string& why) {
  write_file_durably(folder / kDamagedName, why + "\n");
}

bool is_marked_damaged(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kDamagedName, error);
}

std::vector<fs::path> saved_by_job(const std::vector<fs::path>& folders, const std::string& job) {
  std::vector<fs::path> own;
  for (const fs::path& folder : folders) {
    try {
      if (!is_marked_damaged(folder) && read_manifest(folder).job == job) own.push_back(folder);
    } catch (const CheckpointError&) {  // no load could take it
    }
  }
  return own;
}

CheckpointChoice checkpoints_at(const fs::path& given) {
  const fs::path path = plain_path(given);
  if (fs::exists(path / kManifestName)) return {{path}, ""};
  std::vector<int64_t> steps = list_iterations(path);
  if (steps.empty()) throw CheckpointError(path.string() + ": " + what_it_is_instead(path));
  CheckpointChoice choice;
  std::ranges::reverse(steps);
  const auto pointed = read_pointer(path);
  if (const auto at = std::ranges::find(steps, pointed.value_or(-1)); at != steps.end()) {
    std::rotate(steps.begin(), at, at + 1);
  } else {
    choice.note = (path / kPointerName).string() +
                  (pointed ? ": names step " + std::to_string(*pointed) + ", which is not there"
                           : ": missing or no number") +
                  "; the newest complete checkpoint is taken";
  }
  for (const int64_t step : steps) {
    const fs::path folder = path / iteration_name(step);
    if (!is_marked_damaged(folder)) choice.folders.push_back(folder);
  }
  if (choice.folders.empty()) {
    throw CheckpointError(path.string() + ": every checkpoint there was found damaged before (" +
                          kDamagedName + " in each says how)");
  }
  const fs::path& first = choice.folders.front();
  if (!fs::exists(first / kManifestName) && is_of_mindformers(first)) {
    throw CheckpointError(first.string() + ": " + what_it_is_instead(first));
  }
  return choice;
}

std::string compare_with_model(const Manifest& manifest, const std::vector<ParamSpec>& model) {
  std::vector<std::string> missing, surplus, misshapen;
  std::set<std::string> known;
  for (const ParamSpec& spec : model) {
    if (!spec.tied_to.empty()) continue;
    known.insert(spec.name);
    const auto stored = manifest.weights.find(spec.name);
    if (stored == manifest.weights.end()) {
      missing.push_back(spec.name);
    } else if (stored->second.shape != spec.shape) {
      misshapen.push_back(spec.name + " is " + shape_text(stored->second.shape) +
                          ", the model has " + shape_text(spec.shape));
    }
  }
  for (const auto& [name, tensor] : manifest.weights) {
    if (!known.contains(name)) surplus.push_back(name);
  }
  std::string report;
  list_names(report, "missing", missing);
  list_names(report, "not in the model", surplus);
  list_names(report, "of another shape", misshapen);
  return report;
}

bool keeps_state(const Config& config) {
  return std::ranges::any_of(model_spec(config.model), [&](const ParamSpec& spec) {
    return !config.optimizer.kind->slots(config.optimizer, {spec.name, spec.role, spec.shape})
                .empty();
  });
}

std::string optimizer_problem(const Manifest& manifest, const std::string& optimizer,
                              bool has_state) {
  if (!manifest.optimizer.empty() && has_state && manifest.moment_codec != 0 &&
      manifest.moment_codec != kMomentCodec) {
    return detail::concat("holds int8 moments in codes of version ", manifest.moment_codec,
                          " (program ", manifest.version, "), this program reads version ",
                          kMomentCodec, "; checkpoint.no_load_optim: true starts from its weights");
  }
  if (manifest.optimizer == optimizer || (manifest.optimizer.empty() && !has_state)) return "";
  return "holds " +
         (manifest.optimizer.empty() ? "no state of an optimizer"
                                     : "the state of " + manifest.optimizer) +
         ", the run needs that of " + optimizer +
         "; checkpoint.no_load_optim: true starts from its weights";
}

std::vector<std::string> check_sizes(const Manifest& manifest, const fs::path& folder) {
  std::vector<std::string> missing_copies;
  for (const auto* files : {&manifest.files, &manifest.copies}) {
    for (const StoredFile& stored : *files) {
      const fs::path path = folder / stored.name;
      std::error_code error;
      if (files == &manifest.copies && stored.name != kModelConfigName &&
          !fs::exists(path, error)) {
        missing_copies.push_back(path.string() + ": not there");
        continue;
      }
      const uint64_t bytes = fs::file_size(path, error);
      if (error) throw CheckpointError(path.string() + ": cannot be opened: " + error.message());
      if (bytes != stored.bytes) {
        throw CheckpointError(detail::concat(path.string(), ": damaged: ", bytes,
                                             " bytes, should be ", stored.bytes));
      }
    }
  }
  return missing_copies;
}

}  // namespace tessera
