#include "tessera/schedule/action.h"

namespace tessera {
namespace {

std::string at(int64_t micro_batch, int64_t virtual_stage) {
  return std::to_string(micro_batch) + "@" + std::to_string(virtual_stage);
}

const char* letters(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward: return "F";
    case ActionKind::kBackward: return "B";
    case ActionKind::kOverlapForwardBackward: return "";
    case ActionKind::kSendForward: return "FS";
    case ActionKind::kRecvForward: return "FR";
    case ActionKind::kSendBackward: return "BS";
    case ActionKind::kRecvBackward: return "BR";
  }
  return "?";
}

}  // namespace

std::string to_string(const Action& a) {
  if (a.kind == ActionKind::kOverlapForwardBackward) {
    return "[B" + at(a.backward_micro_batch, a.backward_virtual_stage) + "|F" +
           at(a.micro_batch, a.virtual_stage) + "]";
  }
  return letters(a.kind) + at(a.micro_batch, a.virtual_stage);
}

}  // namespace tessera
