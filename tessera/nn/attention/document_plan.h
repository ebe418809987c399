#pragma once

#include <cstdint>
#include <vector>

#include "tessera/nn/layer_context.h"

namespace tessera {

/// Documents of one length that one kernel call takes together.
struct DocumentGroup {
  int64_t length = 0;
  std::vector<int64_t> starts;  // first token of each, in the flat order of tokens
};

/// The attention calls of a micro-batch whose tokens are whole samples, row after row: a single
/// group that covers all tokens in order where all documents are equally long; else the longer ones
/// each by itself (views, nothing is copied) and the short ones of equal length together.
std::vector<DocumentGroup> plan_documents(const LayerContext& context);

}  // namespace tessera
