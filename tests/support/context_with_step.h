#pragma once

#include <memory>

#include "tessera/nn/layer_context.h"

namespace tessera::test {

/// The context of a micro-batch and the step that it belongs to. Copies share the step.
struct ContextWithStep : LayerContext {
  ContextWithStep() : own(std::make_shared<StepContext>()) { step = own.get(); }
  std::shared_ptr<StepContext> own;
};

}  // namespace tessera::test
