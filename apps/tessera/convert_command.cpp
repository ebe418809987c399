#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
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

void add_convert_command(CLI::App& app, Command& command) {
  struct Flags {
    std::string from, to;
    int64_t samples = 0;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* converter = app.add_subcommand(
      "convert-config", "makes a file for this program from a static-graph file of MindFormers");
  converter->add_option("old", flags->from, "the static-graph file")->required();
  converter->add_option("new", flags->to, "the file to write; must not be there")->required();
  CLI::Option* samples =
      converter
          ->add_option("--samples", flags->samples,
                       "rows of the data, from which the steps follow; needed where the file does "
                       "not say them (loaders other than Megatron's)")
          ->check(CLI::PositiveNumber);
  converter->footer(
      "Lines that have no counterpart become comments. Exit code 2: some of them change the "
      "training;\nthe file is written all the same, and they are listed.\n\nExamples:\n"
      "  tessera convert-config pretrain_qwen3.yaml qwen3.yaml\n"
      "  tessera convert-config finetune_qwen3.yaml qwen3.yaml --samples 52000");
  converter->callback([flags, samples, &command] {
    command = [flags, samples] {
      return convert(flags->from, flags->to,
                     samples->count() > 0 ? std::optional(flags->samples) : std::nullopt);
    };
  });
}

}  // namespace tessera
