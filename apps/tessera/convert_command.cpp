#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include "apps/tessera/commands.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/config/static_graph/convert.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string read_or_throw(const std::string& path) {
  std::error_code error;
  std::ifstream file(path);
  if (!file || fs::is_directory(path, error)) throw ConfigError(path + ": cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int convert(const std::string& from, const std::string& to, std::optional<int64_t> samples) {
  std::error_code error;
  if (fs::exists(to, error)) throw ConfigError(to + ": is there already");
  const std::string directory = fs::path(from).parent_path().string();
  const Conversion made =
      convert_static_graph(read_or_throw(from), from, directory.empty() ? "." : directory, samples);
  std::ofstream file(to, std::ios::binary);
  file << made.yaml;
  file.close();
  if (!file) throw ConfigError("cannot write " + to);
  std::string text = fmt::format("{}: for {} ranks; next: tessera plan --config {} --ranks {}\n",
                                 to, made.ranks, to, made.ranks);
  if (!made.changes.empty()) {
    text +=
        fmt::format("{} things change the training or could not be told:\n", made.changes.size());
    for (const std::string& change : made.changes) text += "  " + change + "\n";
  }
  print_result(text);
  return static_cast<int>(made.changes.empty() ? ExitCode::kDone : ExitCode::kConfig);
}

}  // namespace

Command convert_command() {
  struct Flags {
    std::string from, to;
    std::optional<int64_t> samples;
  };
  const auto flags = std::make_shared<Flags>();
  return {"convert-config",
          "makes a file for this program from a static-graph file of MindFormers",
          {{.name = "old",
            .value = "OLD",
            .help = "the static-graph file",
            .target = &flags->from,
            .required = true,
            .path = true},
           {.name = "new",
            .value = "NEW",
            .help = "the file to write; must not be there",
            .target = &flags->to,
            .required = true,
            .path = true},
           {.name = "--samples",
            .value = "N",
            .help = "rows of the data, from which the steps follow; needed where the file does not "
                    "say them (loaders other than Megatron's)",
            .target = &flags->samples,
            .least = 1}},
          "Lines that have no counterpart become comments. Exit code 2: some of them change the "
          "training;\nthe file is written all the same, and they are listed.\n\nExamples:\n"
          "  tessera convert-config pretrain_qwen3.yaml qwen3.yaml\n"
          "  tessera convert-config finetune_qwen3.yaml qwen3.yaml --samples 52000",
          [flags] { return convert(flags->from, flags->to, flags->samples); }};
}

}  // namespace tessera
