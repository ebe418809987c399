// Targets of what training reads: token files, and the texts they are made of.

#include <array>
#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/preprocess.h"
#include "tessera/data/tokenizer.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace tessera::fuzz {

void read_token_index(std::string_view input) {
  if (input.size() < 2) return;
  const size_t bin_bytes =
      static_cast<unsigned char>(input[0]) * 256u + static_cast<unsigned char>(input[1]);
  scratch_file("tokens.bin", std::string(bin_bytes, '\7'));
  scratch_file("tokens.idx", input.substr(2));
  try {
    const IndexedDataset dataset((scratch_folder() / "tokens").string());
    const int64_t sequences = dataset.sequence_count();
    int64_t tokens = 0;
    for (int64_t i = 0; i < sequences; ++i) {
      std::array<int64_t, 8> some{};
      const int64_t length = dataset.length(i);
      const auto count = static_cast<size_t>(std::min<int64_t>(length, some.size()));
      dataset.read(i, length - static_cast<int64_t>(count), std::span(some).first(count));
      tokens += length;
    }
    if (tokens != dataset.token_count()) abort();
    if (dataset.document_bound(dataset.document_count()) != sequences) abort();
    dataset.lengths_checksum(0, sequences);
  } catch (const ConfigError&) {
  }
}

void read_documents(std::string_view input) {
  PreprocessOptions options;
  options.source.inputs = {scratch_file("documents.jsonl", input)};
  options.output_prefix = (scratch_folder() / "documents").string();
  const auto tokenizer = make_tokenizer("byte");
  try {
    preprocess(options, *tokenizer);
  } catch (const ConfigError&) {
  }
}

}  // namespace tessera::fuzz
