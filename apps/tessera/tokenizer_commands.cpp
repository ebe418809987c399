#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/tessera/commands.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/utf8.h"
#include "tessera/config/yaml/value.h"
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
  std::vector<std::string> decode;
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

std::vector<int32_t> ids_of(const std::vector<std::string>& texts) {
  std::vector<int32_t> ids;
  for (const std::string& text : texts) {
    const auto id = parse_int(text);
    if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max()) {
      throw ConfigError("--decode " + text + ": no id");
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

int tokenize(const TokenizeFlags& flags) {
  const bool input = !flags.source.inputs.empty(), decode = !flags.decode.empty();
  if (flags.text.empty() && !input && !decode) {
    throw ConfigError("tessera tokenize: a text, --input or --decode is needed");
  }
  if (!flags.text.empty() + input + decode > 1) {
    throw ConfigError("tessera tokenize: one of a text, --input and --decode");
  }
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(tokenizer_of_flag(flags.tokenizer));
  if (decode) {
    print_result(quoted(tokenizer->decode(ids_of(flags.decode), !flags.special)) + "\n");
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
  if (!input) {
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

struct TrainTokenizerFlags {
  TrainTokenizerOptions options;
  std::string format = "auto";
  std::vector<std::string> special;
};

int train(TrainTokenizerFlags& flags) {
  TrainTokenizerOptions& options = flags.options;
  if (flags.format == "text") options.source.format = TextFormat::kBytes;
  if (flags.format == "jsonl") options.source.format = TextFormat::kJsonLines;
  options.source.say = log_info;
  if (!flags.special.empty()) options.special = flags.special;  // instead of the default
  const TrainTokenizerReport report = train_tokenizer(options);
  print_result(fmt::format(
      "{}/tokenizer.json: {} tokens of {} different words in {} documents{}\n", options.output,
      report.vocab_size, report.words, report.documents,
      report.vocab_size < options.vocab_size ? "; no pair was left that occurs twice" : ""));
  return 0;
}

// What `preprocess` says of its inputs, too.
Flag input_flag(std::vector<std::string>& inputs, bool required) {
  return {.name = "--input",
          .value = "FILE",
          .help = "files, as `preprocess` reads them; - for standard input",
          .target = &inputs,
          .required = required,
          .path = true,
          .many = true};
}

Flag json_key_flag(std::string& key) {
  return {.name = "--json-key",
          .value = "KEY",
          .help = "the text's field in a JSON line",
          .target = &key};
}

Flag format_flag(std::string& format) {
  return {.name = "--format",
          .value = "FORMAT",
          .help = "what the inputs are",
          .target = &format,
          .legal = {"auto", "text", "jsonl"}};
}

}  // namespace

std::string tokenizer_of_flag(const std::string& name) {
  constexpr std::string_view kModel = "sentencepiece:";
  if (name == "byte") return name;
  if (!name.starts_with(kModel)) return path_of_flag("--tokenizer", name);
  return std::string(kModel) + path_of_flag("--tokenizer", name.substr(kModel.size()));
}

Command tokenize_command() {
  const auto flags = std::make_shared<TokenizeFlags>();
  return {"tokenize",
          "shows the ids and pieces of a text, or the text of ids",
          {{.name = "text", .value = "TEXT", .help = "what to encode", .target = &flags->text},
           {.name = "--tokenizer",
            .value = "NAME",
            .help = "a tokenizer.json or a folder with one; sentencepiece:MODEL; byte",
            .target = &flags->tokenizer,
            .required = true},
           input_flag(flags->source.inputs, false),
           {.name = "--decode",
            .value = "ID",
            .help = "ids instead of a text",
            .target = &flags->decode,
            .many = true},
           json_key_flag(flags->source.json_key),
           format_flag(flags->format),
           {.name = "--special",
            .help = "with what the tokenizer's template puts around a text, as BOS; with --decode "
                    "special tokens are shown",
            .target = &flags->special},
           {.name = "--ids", .help = "one list of ids a document", .target = &flags->ids_only}},
          "Examples:\n  tessera tokenize --tokenizer model \"Hello, world\"\n"
          "  tessera tokenize --tokenizer model/tokenizer.json --input a.jsonl --ids\n"
          "  tessera tokenize --tokenizer model --decode 15496 11 995",
          [flags] { return tokenize(*flags); }};
}

Command train_tokenizer_command() {
  const auto flags = std::make_shared<TrainTokenizerFlags>();
  TrainTokenizerOptions& options = flags->options;
  return {"train-tokenizer",
          "makes a byte-level BPE (tokenizer.json) of text, for preprocess",
          {input_flag(options.source.inputs, true),
           {.name = "--output",
            .value = "FOLDER",
            .help = "folder of tokenizer.json",
            .target = &options.output,
            .required = true,
            .path = true},
           {.name = "--vocab-size",
            .value = "N",
            .help = "tokens, special ones included",
            .target = &options.vocab_size,
            .least = 1},
           {.name = "--words",
            .value = "WAY",
            .help = "how text is cut into words: as GPT-2 does, or as newer models, with one or up "
                    "to three digits a word",
            .target = &options.words,
            .legal = {"gpt2", "digits1", "digits3"}},
           {.name = "--special",
            .value = "TOKEN",
            .help = "special tokens; the first ends documents (default: <|endoftext|>)",
            .target = &flags->special,
            .many = true},
           json_key_flag(options.source.json_key),
           format_flag(flags->format)},
          "Example:\n  tessera train-tokenizer --input corpus.jsonl.zst --vocab-size 32000 \\\n"
          "      --output my_tokenizer\n"
          "  tessera preprocess --input corpus.jsonl.zst --tokenizer my_tokenizer --append-eod "
          "--output data/c",
          [flags] { return train(*flags); }};
}

}  // namespace tessera
