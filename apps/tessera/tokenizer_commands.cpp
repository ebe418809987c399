#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/tessera/commands.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/data/text/utf8.h"
#include "tessera/data/tokenizer.h"
#include "tessera/data/tokenizer/train_tokenizer.h"

namespace tessera {
namespace {

std::string quoted(const std::string& bytes) {
  return nlohmann::json(with_valid_utf8(bytes)).dump();
}

struct TokenizeFlags {
  std::string tokenizer;
  std::string text;
  DocumentSourceOptions source;
  std::string format = "auto";
  std::vector<int32_t> decode;
  bool special = false;
  bool ids_only = false;
};

// A line a token, or a list a document.
void show(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool ids_only) {
  std::string out;
  if (ids_only) {
    out = nlohmann::json(ids).dump() + "\n";
  } else {
    for (const int32_t id : ids) {
      out += fmt::format("{:>8}  {}\n", id, quoted(tokenizer.piece(id).value_or("")));
    }
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
}

int tokenize(const TokenizeFlags& flags) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(flags.tokenizer);
  if (!flags.decode.empty()) {
    print_result(quoted(tokenizer->decode(flags.decode, !flags.special)) + "\n");
    return 0;
  }
  std::vector<int32_t> before, after;
  if (flags.special) tokenizer->around(before, after);
  const auto on_text = [&](std::string_view text, const DocumentFault& place) {
    std::vector<int32_t> ids = before;
    try {
      tokenizer->encode(text, ids);
    } catch (const EncodeError& error) {
      DocumentFault fault = place;
      fault.why = detail::concat(error.what(), " (byte ", error.at() + 1, " of the text)");
      throw ConfigError(to_string(fault));
    }
    ids.insert(ids.end(), after.begin(), after.end());
    show(*tokenizer, ids, flags.ids_only);
  };
  if (flags.source.inputs.empty()) {
    on_text(flags.text, {"the text", 0, 0, "", false});
    return 0;
  }
  const auto on_fault = [](const DocumentFault& fault) { throw ConfigError(to_string(fault)); };
  DocumentSourceOptions options = flags.source;
  if (flags.format == "text") options.format = TextFormat::kBytes;
  if (flags.format == "jsonl") options.format = TextFormat::kJsonLines;
  DocumentSource source(options);
  for (Batch batch; source.next(batch);) {
    for (const Piece& piece : batch.pieces) {
      for_each_document(piece, options.json_key, on_text, on_fault);
    }
  }
  return 0;
}

void add_tokenize(CLI::App& app, Command& command) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* tokenize_command =
      app.add_subcommand("tokenize", "shows the ids and pieces of a text, or the text of ids");
  tokenize_command
      ->add_option("--tokenizer", flags->tokenizer,
                   "a tokenizer.json or a folder with one; sentencepiece:MODEL; byte")
      ->required();
  CLI::Option* text = tokenize_command->add_option("text", flags->text, "what to encode");
  CLI::Option* input = tokenize_command->add_option(
      "--input", flags->source.inputs,
      "files instead of a text, as `preprocess` reads them; - for standard input");
  CLI::Option* decode = tokenize_command->add_option("--decode", flags->decode, "ids instead");
  text->excludes(input)->excludes(decode);
  input->excludes(decode);
  tokenize_command
      ->add_option("--json-key", flags->source.json_key, "the text's field in a JSON line")
      ->capture_default_str();
  tokenize_command->add_option("--format", flags->format, "what the inputs are")
      ->check(CLI::IsMember({"auto", "text", "jsonl"}))
      ->capture_default_str();
  tokenize_command->add_flag("--special", flags->special,
                             "with what the tokenizer's template puts around a text, as BOS; with "
                             "--decode special tokens are shown");
  tokenize_command->add_flag("--ids", flags->ids_only, "one list of ids a document");
  tokenize_command->footer(
      "Examples:\n  tessera tokenize --tokenizer model \"Hello, world\"\n"
      "  tessera tokenize --tokenizer model/tokenizer.json --input a.jsonl --ids\n"
      "  tessera tokenize --tokenizer model --decode 15496 11 995");
  tokenize_command->callback([flags, &command, text, input, decode] {
    if (text->count() + input->count() + decode->count() == 0) {
      throw ConfigError("tessera tokenize: a text, --input or --decode is needed");
    }
    command = [flags] { return tokenize(*flags); };
  });
}

void add_train_tokenizer(CLI::App& app, Command& command) {
  struct Flags {
    TrainTokenizerOptions options;
    std::string format = "auto";
  };
  auto flags = std::make_shared<Flags>();
  TrainTokenizerOptions& options = flags->options;
  CLI::App* train = app.add_subcommand(
      "train-tokenizer", "makes a byte-level BPE (tokenizer.json) of text, for preprocess");
  train->add_option("--input", options.source.inputs, "files, as `preprocess` reads them")
      ->required();
  train->add_option("--output", options.output, "folder of tokenizer.json")->required();
  train->add_option("--vocab-size", options.vocab_size, "tokens, special ones included")
      ->capture_default_str();
  train
      ->add_option("--words", options.words,
                   "how text is cut into words: as GPT-2 does, or as newer models, with one or up "
                   "to three digits a word")
      ->check(CLI::IsMember({"gpt2", "digits1", "digits3"}))
      ->capture_default_str();
  train->add_option("--special", options.special,
                    "special tokens; the first ends documents (default: <|endoftext|>)");
  train->add_option("--json-key", options.source.json_key, "the text's field in a JSON line")
      ->capture_default_str();
  train->add_option("--format", flags->format, "what the inputs are")
      ->check(CLI::IsMember({"auto", "text", "jsonl"}))
      ->capture_default_str();
  train->footer(
      "Example:\n  tessera train-tokenizer --input corpus.jsonl.zst --vocab-size 32000 \\\n"
      "      --output my_tokenizer\n"
      "  tessera preprocess --input corpus.jsonl.zst --tokenizer my_tokenizer --append-eod "
      "--output data/c");
  train->callback([flags, &command] {
    command = [flags] {
      TrainTokenizerOptions& options = flags->options;
      if (flags->format == "text") options.source.format = TextFormat::kBytes;
      if (flags->format == "jsonl") options.source.format = TextFormat::kJsonLines;
      options.source.say = log_info;
      const TrainTokenizerReport report = train_tokenizer(options);
      print_result(fmt::format(
          "{}/tokenizer.json: {} tokens of {} different words in {} "
          "documents{}\n",
          options.output, report.vocab_size, report.words, report.documents,
          report.vocab_size < options.vocab_size ? "; no pair was left that occurs twice" : ""));
      return 0;
    };
  });
}

}  // namespace

void add_tokenizer_commands(CLI::App& app, Command& command) {
  add_tokenize(app, command);
  add_train_tokenizer(app, command);
}

}  // namespace tessera
