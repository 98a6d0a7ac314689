#include "runtime/ops/attention.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "base/document_range.h"
#include "base/status_macros.h"
#include "kernels/run.h"
#include "runtime/nn/modules.h"
#include "runtime/testing/finite_difference.h"

namespace castor::testing {
namespace {

struct Sizes {
  int64_t batch, length, heads, head_size;
  float dropout;
};

GradientCase AttentionCase(const Sizes& s) {
  GradientCase c;
  c.shape = {.batch = s.batch, .length = s.length};
  const int64_t channels = s.heads * s.head_size;
  c.make = Between(3, channels, [=]() -> Layer {
    return [=, qkv = nn::Linear("qkv", 3, 3 * channels)](
               Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor y, qkv(engine, x));
      return ops::CausalAttention(engine, y, s.heads, s.dropout, "attn");
    };
  });
  return c;
}

class AttentionTest : public ::testing::TestWithParam<Sizes> {};

TEST_P(AttentionTest, GradientsAreTheLosssSlope) {
  const absl::Status status = CheckGradients(AttentionCase(GetParam()));
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(OddSizes, AttentionTest,
                         ::testing::Values(Sizes{1, 1, 1, 1, 0.0f},
                                           Sizes{2, 3, 2, 3, 0.0f},
                                           Sizes{1, 7, 1, 5, 0.0f},
                                           Sizes{3, 5, 3, 1, 0.0f},
                                           Sizes{2, 5, 2, 2, 0.25f}));

// Attention of 3 channels in front over heads of `head_size`, with q, k and v
// from matrices of their own. k has no bias: a softmax does not see it.
GradientCase SeparateCase(const ops::AttentionOptions& options, int64_t length,
                          int64_t head_size) {
  GradientCase c;
  c.shape = {.batch = 2, .length = length};
  const int64_t width = options.heads * head_size;
  const int64_t kv_width =
      (options.kv_heads == 0 ? options.heads : options.kv_heads) * head_size;
  c.make = Between(3, width, [=]() -> Layer {
    return [=, wq = nn::Linear("q", 3, width),
            wk = nn::Linear("k", 3, kv_width, 0.02f, /*bias=*/false),
            wv = nn::Linear("v", 3, kv_width)](
               Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor q, wq(engine, x));
      CASTOR_ASSIGN_OR_RETURN(const Tensor k, wk(engine, x));
      CASTOR_ASSIGN_OR_RETURN(const Tensor v, wv(engine, x));
      return ops::Attention(engine, q, k, v, options, "attn");
    };
  });
  return c;
}

TEST(Attention, GradientsOfSeparateOperandsAreTheLosssSlope) {
  for (const ops::AttentionOptions& options :
       {ops::AttentionOptions{.heads = 2},
        ops::AttentionOptions{.heads = 4, .kv_heads = 2},
        ops::AttentionOptions{.heads = 3, .kv_heads = 1, .window = 2},
        ops::AttentionOptions{.heads = 2, .kv_heads = 1, .causal = false},
        ops::AttentionOptions{
            .heads = 2, .window = 4, .scale = 0.8, .dropout = 0.25f},
        ops::AttentionOptions{.heads = 2, .kv_heads = 2, .softcap = 0.5}}) {
    const absl::Status status = CheckGradients(SeparateCase(options, 5, 3));
    EXPECT_TRUE(status.ok()) << options.kv_heads << " heads of keys, window "
                             << options.window << ": " << status;
  }
}

// Rows of documents of 2 and 3 tokens, and of 1, 3 and 1.
constexpr DocumentRange kShared[] = {{0, 2}, {0, 2}, {2, 5}, {2, 5}, {2, 5},
                                     {0, 1}, {1, 4}, {1, 4}, {1, 4}, {4, 5}};

TEST(Attention, GradientsWithinDocumentsAreTheLosssSlope) {
  for (const bool checkpoint : {false, true}) {
    for (GradientCase c :
         {AttentionCase({2, 5, 2, 3, 0.25f}),
          SeparateCase({.heads = 2, .kv_heads = 1, .window = 2}, 5, 3),
          SeparateCase({.heads = 2, .causal = false}, 5, 3)}) {
      c.shape.documents = true;
      c.documents.assign(std::begin(kShared), std::end(kShared));
      if (checkpoint) c.kept_blocks.emplace();
      const absl::Status status = CheckGradients(c);
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

TEST(Attention, RefusesDocumentsThatAreNotEachTokens) {
  GradientCase c = AttentionCase({2, 5, 2, 3, 0});
  c.documents.resize(10);
  absl::Status status = CheckGradients(c);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  c.shape.documents = true;
  c.documents.pop_back();
  status = CheckGradients(c);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST(Attention, OperandsThatNeedNoGradientGetNone) {
  for (const std::vector<std::string>& frozen :
       {std::vector<std::string>{"wte.weight", "q.weight", "q.bias"},
        {"wte.weight", "k.weight"},
        {"wte.weight", "v.weight", "v.bias"}}) {
    GradientCase c = SeparateCase({.heads = 2, .kv_heads = 1}, 4, 3);
    c.frozen = frozen;
    const absl::Status status = CheckGradients(c);
    EXPECT_TRUE(status.ok()) << frozen[1] << ": " << status;
  }
}

TEST(Attention, RefusesOperandsThatDoNotFit) {
  struct Case {
    ops::AttentionOptions options;
    const char* what;
  };
  for (const Case& s : {Case{{.heads = 0}, "heads"},
                        Case{{.heads = 4, .kv_heads = 3}, "divide"},
                        Case{{.heads = 2, .kv_heads = 4}, "divide"},
                        Case{{.heads = 2, .causal = false, .window = 2},
                             "only if it is causal"},
                        Case{{.heads = 2, .window = -1}, "window"},
                        Case{{.heads = 2, .keys = 6}, "no more keys"},
                        Case{{.heads = 2, .keys = 4}, "gradients"},
                        Case{{.heads = 2, .scale = -1}, "scale"},
                        Case{{.heads = 2, .softcap = -1}, "soft cap"},
                        Case{{.heads = 2, .dropout = 1}, "dropout"}}) {
    GradientCase c = SeparateCase({.heads = 12}, 5, 1);
    c.make = Between(12, 12, [s]() -> Layer {
      return [s](Engine& engine, const Tensor& x) {
        return ops::Attention(engine, x, x, x, s.options, "attn");
      };
    });
    const absl::Status status = CheckRefusal(c, {"\"attn\"", s.what, "[2, 5"});
    EXPECT_TRUE(status.ok()) << status;
  }
  // k of another width than q's heads have.
  GradientCase c;
  c.make = Between(4, 4, []() -> Layer {
    return [narrow = nn::Linear("narrow", 4, 3)](
               Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor k, narrow(engine, x));
      return ops::Attention(engine, x, k, k, {.heads = 2}, "attn");
    };
  });
  const absl::Status status = CheckRefusal(c, {"\"attn\"", "[2, 3, 3]"});
  EXPECT_TRUE(status.ok()) << status;
}

// Any table of a GPU's kernels will do: the dry pass runs none of them.
TEST(Attention, DryPassRefusesHeadsThatAGpuDoesNotTake) {
  for (int64_t head_size : {256, 257}) {
    GradientCase c = SeparateCase({.heads = 2, .kv_heads = 1}, 2, head_size);
    c.make = [make = c.make]() -> LossFunction {
      return [loss = make()](Engine& engine, const Tensor& tokens,
                             const Tensor& targets) {
        engine.set_gpu_sizes(&kernels::CpuKernels());
        return loss(engine, tokens, targets);
      };
    };
    const absl::Status status =
        head_size == 256
            ? DryPass(c)
            : CheckRefusal(c, {"\"attn\"", "[2, 2, 257]", "at most 256"});
    EXPECT_TRUE(status.ok()) << status;
  }
}

// Attention over a tensor of `width` channels.
GradientCase WidthCase(int64_t width, int64_t heads) {
  GradientCase c;
  c.make = Between(3, 3, [=]() -> Layer {
    return [=, qkv = nn::Linear("qkv", 3, width)](
               Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor y, qkv(engine, x));
      return ops::CausalAttention(engine, y, heads, 0.0f, "attn");
    };
  });
  return c;
}

TEST(Attention, RefusesAWidthThatItsHeadsDoNotShare) {
  struct Case {
    int64_t width, heads;
  };
  // The cases: a width that is not three parts, three parts that two heads do
  // not share, no heads.
  for (const Case& s :
       {Case{10, 1}, Case{9, 2}, Case{3, 2}, Case{9, 0}, Case{9, -1}}) {
    const absl::Status status =
        CheckRefusal(WidthCase(s.width, s.heads),
                     {"\"attn\" of " + std::to_string(s.heads) + " heads",
                      Shape{2, 3, s.width}.ToString()});
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(Attention, RefusesATensorOfAnotherRank) {
  GradientCase c;
  c.make = []() -> LossFunction {
    return [](Engine& engine, const Tensor& tokens, const Tensor&) {
      return ops::CausalAttention(engine, tokens, 1, 0.0f, "attn");
    };
  };
  const absl::Status status = CheckRefusal(c, {"\"attn\"", "[2, 3]"});
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Attention, DryPassRefusesWhatTheKernelWould) {
  absl::Status status =
      CheckRefusal(AttentionCase({1, 131073, 1, 1, 0.0f}),
                   {"\"attn\"", "[1, 131073, 3]", "at most 131072 positions"});
  EXPECT_TRUE(status.ok()) << status;
  status = CheckRefusal(AttentionCase({1, 1, 1, 32769, 0.0f}),
                        {"\"attn\"", "[1, 1, 98307]", "head size of 32768"});
  EXPECT_TRUE(status.ok()) << status;
  status = CheckRefusal(AttentionCase({1, 1, 1, 1, 1.0f}),
                        {"\"attn\"", "[1, 1, 3]", "dropout must lie in"});
  EXPECT_TRUE(status.ok()) << status;
  for (const Sizes& most :
       {Sizes{1, 131072, 1, 1, 0.0f}, Sizes{1, 1, 1, 32768, 0.0f}}) {
    status = DryPass(AttentionCase(most));
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace castor::testing
