#include "tessera/planner/tapes/activation_tape.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using Operation = ActivationTape::Operation;

// y = f(x), z = g(y): f keeps x, g keeps y.
CallMemory two_products(bool recompute) {
  ActivationTape tape(10);
  Operation f;
  f.inputs = {tape.input()};
  f.bytes = 30;
  f.saved = {tape.input()};
  f.weight_gradient = 7;
  const auto y = tape.add(f);
  Operation g;
  g.inputs = {y};
  g.bytes = 20;
  g.saved = {y};
  g.weight_gradient = 5;
  const auto z = tape.add(g);
  tape.end_scope(z);
  return tape.measure(z, recompute);
}

TEST(ActivationTape, KeepsWhatIsSavedAndFreesItAsTheBackwardGoes) {
  const CallMemory m = two_products(false);
  EXPECT_EQ(m.input, 10);
  EXPECT_EQ(m.output, 20);
  EXPECT_EQ(m.kept, 30);          // y; x is the caller's
  EXPECT_EQ(m.forward_peak, 50);  // y and z
  // Backward of g: gradient of y and of the weights of g; of f: y is free, 30 of its gradient, 10
  // of that of x, both weights.
  EXPECT_EQ(m.backward_peak, 30 + 5);
  EXPECT_EQ(m.weight_gradients, 5);
}

TEST(ActivationTape, ARecomputedCallKeepsNothingAndMakesItAgain) {
  const CallMemory m = two_products(true);
  EXPECT_EQ(m.kept, 0);
  EXPECT_EQ(m.forward_peak, 50);
  EXPECT_EQ(m.backward_peak, 30 + 30 + 5);
}

TEST(ActivationTape, ACheckpointKeepsItsInputs) {
  const auto measure = [](bool checkpoint) {
    ActivationTape tape(10);
    Operation first;
    first.inputs = {tape.input()};
    first.bytes = 4;
    const auto x = tape.add(first);
    if (checkpoint) tape.begin_checkpoint();
    Operation widen;
    widen.inputs = {x};
    widen.bytes = 100;
    widen.saved = {x};
    const auto wide = tape.add(widen);
    Operation narrow;
    narrow.inputs = {wide};
    narrow.bytes = 10;
    narrow.saved = {wide};
    const auto y = tape.add(narrow);
    if (checkpoint) tape.end_checkpoint(y);
    tape.end_scope(y);
    return tape.measure(y, false);
  };
  EXPECT_EQ(measure(false).kept, 104);
  EXPECT_EQ(measure(true).kept, 4);
  EXPECT_EQ(measure(true).forward_peak, 114);
  // Again: wide and y, then the gradient of wide beside them.
  EXPECT_EQ(measure(true).backward_peak, 100 + 10 + 100);
  EXPECT_EQ(measure(false).backward_peak, 100);
}

TEST(ActivationTape, ASumPassesItsGradientAndTwoUsesAddTheirs) {
  ActivationTape tape(10);
  Operation norm;
  norm.inputs = {tape.input()};
  norm.bytes = 10;
  norm.saved = {tape.input()};
  norm.keeps = 1;
  const auto y = tape.add(norm);
  Operation sum;
  sum.inputs = {tape.input(), y};
  sum.bytes = 10;
  sum.passes_gradient = true;
  const auto z = tape.add(sum);
  tape.end_scope(z);
  const CallMemory m = tape.measure(z, false);
  EXPECT_EQ(m.kept, 1);
  EXPECT_EQ(m.forward_peak, 21);
  // The gradient of the norm's input, and its sum with what passed.
  EXPECT_EQ(m.backward_peak, 20);
}

}  // namespace
}  // namespace tessera
