#include "memory/plan/layout/chunk_layout.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace castor {
namespace {

std::vector<LayoutParameter> Sizes(const std::vector<int64_t>& elements) {
  std::vector<LayoutParameter> parameters;
  for (const int64_t size : elements) {
    parameters.push_back({absl::StrCat("p", parameters.size()), size, true});
  }
  return parameters;
}

// GPT-2's parameters, in order of first use; the head is tied to wte.
std::vector<LayoutParameter> Gpt2(int64_t layers, int64_t c, int64_t v,
                                  int64_t t) {
  std::vector<int64_t> sizes = {v * c, t * c};
  for (int64_t i = 0; i < layers; ++i) {
    sizes.insert(sizes.end(), {c, c, 3 * c * c, 3 * c, c * c, c, c, c,
                               4 * c * c, 4 * c, 4 * c * c, c});
  }
  sizes.insert(sizes.end(), {c, c});
  return Sizes(sizes);
}

TEST(ChunkLayout, PlacesByHand) {
  // S = 256 elements: 100 takes 128, 30 takes 64; 300 is outsize and leaves the
  // first chunk open, into which the last 64 just fit.
  const auto layout = MakeChunkLayout(
      Sizes({100, 300, 30, 64, 1}),
      {.dtype = DType::kFloat32, .chunk_bytes = 1024, .world_size = 1});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->chunk_elements, 256);
  ASSERT_EQ(layout->chunks.size(), 3u);
  EXPECT_EQ(layout->place(ParamId(0)), (ChunkPlace{ChunkId(0), 0}));
  EXPECT_EQ(layout->place(ParamId(1)), (ChunkPlace{ChunkId(1), 0}));
  EXPECT_EQ(layout->place(ParamId(2)), (ChunkPlace{ChunkId(0), 128}));
  EXPECT_EQ(layout->place(ParamId(3)), (ChunkPlace{ChunkId(0), 192}));
  EXPECT_EQ(layout->place(ParamId(4)), (ChunkPlace{ChunkId(2), 0}));
  EXPECT_EQ(layout->chunk(ChunkId(0)).used_elements, 194);
  EXPECT_EQ(layout->chunk(ChunkId(1)).elements, 320);
  EXPECT_EQ(layout->payload_bytes(ChunkId(1)), 1280);
  EXPECT_EQ(layout->total_elements, 256 + 320 + 256);
  EXPECT_EQ(layout->parameter_elements, 495);
  EXPECT_EQ(layout->padding_elements(), 337);
}

TEST(ChunkLayout, RoundsChunksToWholeTilesPerRank) {
  // 1000 / 4 bytes = 250 elements; the grain is 64 * 3 = 192.
  const auto layout = MakeChunkLayout(
      Sizes({100, 100, 1000}),
      {.dtype = DType::kFloat32, .chunk_bytes = 1000, .world_size = 3});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->chunk_elements, 192);
  ASSERT_EQ(layout->chunks.size(), 3u);
  EXPECT_EQ(layout->chunks[2].elements, 1152);  // 6 * 192
}

TEST(ChunkLayout, GivesEachRankATileAtLeast) {
  const auto layout = MakeChunkLayout(
      Sizes({5, 5000}),
      {.dtype = DType::kBFloat16, .chunk_bytes = 128, .world_size = 8});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->chunk_elements, 512);
}

TEST(ChunkLayout, IsNoLargerThanTheModel) {
  const auto layout =
      MakeChunkLayout(Sizes({100, 100}), {.dtype = DType::kFloat32,
                                          .chunk_bytes = int64_t{1} << 40,
                                          .world_size = 1});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->chunk_elements, 256);
}

TEST(ChunkLayout, NumbersParametersAsTold) {
  std::vector<LayoutParameter> parameters = Sizes({64, 128, 64});
  parameters[0].id = ParamId(2);
  parameters[1].id = ParamId(0);
  parameters[2].id = ParamId(1);
  const LayoutOptions options{.chunk_bytes = 1024};
  const auto layout = MakeChunkLayout(parameters, options);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->place(ParamId(2)).offset, 0);
  EXPECT_EQ(layout->place(ParamId(0)).offset, 64);
  EXPECT_EQ(layout->place(ParamId(1)).offset, 192);
  EXPECT_EQ(layout->chunks[0].parameters,
            (std::vector<ParamId>{ParamId(2), ParamId(0), ParamId(1)}));
  parameters[2].id = ParamId(0);
  EXPECT_FALSE(MakeChunkLayout(parameters, options).ok());
  parameters[2].id = ParamId(3);
  EXPECT_FALSE(MakeChunkLayout(parameters, options).ok());
}

TEST(ChunkLayout, RefusesWhatCannotBeLaidOut) {
  const LayoutOptions options;
  EXPECT_FALSE(MakeChunkLayout({}, options).ok());
  EXPECT_FALSE(MakeChunkLayout(Sizes({1, 0}), options).ok());
  EXPECT_FALSE(MakeChunkLayout(Sizes({-5}), options).ok());
  const int64_t huge = int64_t{1} << 47;
  EXPECT_TRUE(MakeChunkLayout(Sizes({huge, huge}), options).ok());
  EXPECT_FALSE(MakeChunkLayout(Sizes({huge, huge, 1}), options).ok());
  EXPECT_FALSE(MakeChunkLayout(Sizes({64}), {.world_size = 0}).ok());
  const auto small = MakeChunkLayout(Sizes({64}), {.chunk_bytes = 255});
  EXPECT_EQ(small.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(small.status().message().find("chunk_size"),
            absl::string_view::npos);
  EXPECT_FALSE(MakeChunkLayout(Sizes({64}), {.chunk_bytes = -4096}).ok());
  StateLayout states;
  states.slots.resize(kMaxStateSlots);
  EXPECT_TRUE(MakeChunkLayout(Sizes({64}), {.states = states}).ok());
  states.slots.emplace_back();
  EXPECT_FALSE(MakeChunkLayout(Sizes({64}), {.states = states}).ok());
}

TEST(ChunkLayout, StatesTakeTheirSlotsOfWhatTheRankHoldsOfTrainableChunks) {
  const LayoutParameter parameters[] = {
      {.name = "a", .elements = 100},
      {.name = "f", .elements = 100, .trainable = false}};
  for (const int world_size : {1, 2}) {
    const auto bytes = [&](std::vector<StateSlot> slots, int64_t chunk,
                           bool accumulate) {
      const auto layout = MakeChunkLayout(
          parameters,
          {.world_size = world_size, .states = {.slots = std::move(slots)}});
      EXPECT_TRUE(layout.ok());
      return layout->state_bytes(ChunkId(chunk), accumulate) * world_size;
    };
    const StateFormat kWide = StateFormat::kFloat32,
                      kHalf = StateFormat::kBFloat16;
    EXPECT_EQ(bytes({}, 0, false), 128 * 4);
    EXPECT_EQ(bytes({}, 0, true), 128 * 8);
    EXPECT_EQ(bytes({{"m", kWide}, {"v", kWide}}, 0, false), 128 * 12);
    EXPECT_EQ(bytes({{"m", kWide}, {"v", kWide}}, 0, true), 128 * 16);
    EXPECT_EQ(bytes({{"m", kHalf}, {"v", kWide}}, 0, true), 128 * 14);
    EXPECT_EQ(bytes({{"m", kWide}, {"v", kWide}}, 1, true), 0);
  }
}

TEST(ChunkLayout, CountsTheMarginsOfTrainableParameters) {
  EXPECT_EQ(MarginsOf({}), (Margins{1, 1, 0}));
  EXPECT_EQ(MarginsOf({7}), (Margins{1, 7, 0}));
  EXPECT_EQ(MarginsOf({7, 9}), (Margins{1, 7, 9}));
  EXPECT_EQ(MarginsOf({2, 3, 7, 9}), (Margins{6, 7, 9}));
  std::vector<LayoutParameter> parameters;
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{7, 9}, {5}, {2, 3, 4}}) {
    const Margins margins = MarginsOf(shape);
    parameters.push_back(
        {.name = "p", .elements = margins.elements(), .margins = margins});
  }
  parameters[1].trainable = false;
  const auto with = MakeChunkLayout(parameters, {.states = {.margins = true}});
  ASSERT_TRUE(with.ok());
  EXPECT_EQ(with->num_margins(ParamId(0)), 16);
  EXPECT_EQ(with->num_margins(ParamId(1)), 0);
  EXPECT_EQ(with->num_margins(ParamId(2)), 14);
  EXPECT_EQ(with->num_margins(), 30);
  EXPECT_EQ(MakeChunkLayout(parameters, {})->num_margins(), 0);
  parameters[2].margins.rows = 4;
  EXPECT_FALSE(MakeChunkLayout(parameters, {.states = {.margins = true}}).ok());
}

TEST(StateLayout, PartsLieOneAfterTheOther) {
  const StateLayout states = {.slots = {{"m", StateFormat::kBFloat16}, {"v"}}};
  EXPECT_EQ(states.num_parts(), 3);
  EXPECT_EQ(states.BytesBefore(StatePart::kMaster, 64), 0);
  EXPECT_EQ(states.BytesBefore(StatePart::Slot(0), 64), 64 * 4);
  EXPECT_EQ(states.BytesBefore(StatePart::Slot(1), 64), 64 * 6);
  EXPECT_EQ(states.BytesBefore(StatePart(states.num_parts()), 64), 64 * 10);
  EXPECT_EQ(states.format(StatePart::Slot(0)), StateFormat::kBFloat16);
  const StateLayout eight = {
      .slots = {{"m", StateFormat::kSigned8}, {"v", StateFormat::kUnsigned8}}};
  EXPECT_EQ(eight.BytesBefore(StatePart::Slot(1), 128), 128 * 5 + 2 * 4);
  EXPECT_EQ(eight.Bytes(128, /*accumulate=*/true), 128 * 10 + 4 * 4);
}

TEST(ChunkLayoutSearch, WastesLittleOnGpt2) {
  for (const auto& [layers, c, v, t] :
       {std::array<int64_t, 4>{12, 768, 50257, 1024},
        {6, 384, 256, 256},
        {24, 1024, 50257, 1024},
        {96, 12288, 50257, 2048}}) {
    for (const int world_size : {1, 8}) {
      const auto parameters = Gpt2(layers, c, v, t);
      const auto layout = MakeChunkLayout(
          parameters, {.chunk_bytes = 0, .world_size = world_size});
      ASSERT_TRUE(layout.ok());
      EXPECT_LE(layout->padding_elements(), layout->parameter_elements / 40)
          << c << " x " << layers << ": " << layout->chunks.size()
          << " chunks of " << layout->chunk_elements;
      EXPECT_GE(layout->chunks.size(), 8u);
    }
  }
}

TEST(ChunkLayoutSearch, PrefersTheSmallerOfEqualSizes) {
  // 64 parameters of 64 tiles: a chunk of any whole number of them that divides
  // 64 wastes nothing; floor: 256 KiB are 16 of them.
  const auto layout = MakeChunkLayout(Sizes(std::vector<int64_t>(64, 4096)),
                                      {.chunk_bytes = 0});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->padding_elements(), 0);
  EXPECT_EQ(layout->chunk_elements, 4096);
}

TEST(ChunkLayoutSearch, KeepsTheFloorWhereTheModelAllows) {
  // 64 MiB in parameters of 64 KiB.
  const auto layout = MakeChunkLayout(Sizes(std::vector<int64_t>(1024, 16384)),
                                      {.chunk_bytes = 0});
  ASSERT_TRUE(layout.ok());
  EXPECT_GE(layout->chunk_elements * 4, 256 << 10);
  EXPECT_LE(layout->chunk_elements * 4, 64 << 20);
  EXPECT_EQ(layout->padding_elements(), 0);
}

struct RandomModel {
  std::vector<LayoutParameter> parameters;
  LayoutOptions options;
};

RandomModel DrawModel() {
  RandomModel model;
  const int count = *rc::gen::inRange(1, 60);
  for (int i = 0; i < count; ++i) {
    const int64_t scale = *rc::gen::element<int64_t>(10, 300, 5000, 200000);
    model.parameters.push_back(
        {absl::StrCat("p", i), *rc::gen::inRange<int64_t>(1, scale),
         *rc::gen::weightedElement<bool>({{4, true}, {1, false}})});
  }
  model.options.dtype =
      *rc::gen::element(DType::kFloat32, DType::kBFloat16, DType::kFloat16);
  model.options.world_size = *rc::gen::inRange(1, 9);
  model.options.chunk_bytes =
      *rc::gen::element<int64_t>(0, 256, 1000, 4096, 65536, 1 << 20);
  return model;
}

TEST(ChunkLayoutProperty, PlacesEachOnceAlignedApartAndInOrder) {
  EXPECT_TRUE(rc::check([] {
    const RandomModel model = DrawModel();
    const auto made = MakeChunkLayout(model.parameters, model.options);
    RC_ASSERT(made.ok());
    const ChunkLayout& layout = *made;
    const int64_t grain = kTileElements * model.options.world_size;
    RC_ASSERT(layout.places.size() == model.parameters.size());
    RC_ASSERT(layout.chunk_elements % grain == 0);

    int64_t total = 0, used = 0;
    size_t seen = 0;
    ParamId last_first;
    for (size_t c = 0; c < layout.chunks.size(); ++c) {
      const ChunkSpec& chunk = layout.chunks[c];
      RC_ASSERT(!chunk.parameters.empty());
      RC_ASSERT(chunk.elements % grain == 0);
      RC_ASSERT(last_first < chunk.parameters.front());
      last_first = chunk.parameters.front();
      int64_t end = 0, chunk_used = 0;
      ParamId last;
      for (const ParamId id : chunk.parameters) {
        const LayoutParameter& parameter = model.parameters[id.value];
        RC_ASSERT(last < id);
        last = id;
        RC_ASSERT(layout.place(id).chunk == ChunkId(static_cast<int64_t>(c)));
        RC_ASSERT(layout.place(id).offset >= end);
        RC_ASSERT(layout.place(id).offset % kTileElements == 0);
        end = layout.place(id).offset + parameter.elements;
        RC_ASSERT(parameter.trainable == chunk.trainable);
        chunk_used += parameter.elements;
      }
      RC_ASSERT(end <= chunk.elements);
      RC_ASSERT(chunk_used == chunk.used_elements);
      if (chunk.elements != layout.chunk_elements) {
        RC_ASSERT(chunk.parameters.size() == 1u);
        RC_ASSERT(chunk.elements > layout.chunk_elements);
        RC_ASSERT(chunk.elements == RoundUp(end, grain));
      }
      seen += chunk.parameters.size();
      total += chunk.elements;
      used += chunk.used_elements;
    }
    // Each place was met in its own chunk, and none was left over.
    RC_ASSERT(seen == model.parameters.size());
    RC_ASSERT(total == layout.total_elements);
    RC_ASSERT(used == layout.parameter_elements);
  }));
}

TEST(ChunkLayoutProperty, ClosesAChunkOnlyForWhatDoesNotFit) {
  EXPECT_TRUE(rc::check([] {
    const RandomModel model = DrawModel();
    const auto layout = MakeChunkLayout(model.parameters, model.options);
    RC_ASSERT(layout.ok());
    for (const bool trainable : {false, true}) {
      const ChunkSpec* open = nullptr;
      for (const ChunkSpec& chunk : layout->chunks) {
        const auto& first = model.parameters[chunk.parameters[0].value];
        if (chunk.trainable != trainable ||
            RoundUp(first.elements, kTileElements) > layout->chunk_elements) {
          continue;
        }
        if (open != nullptr) {
          const ParamId last = open->parameters.back();
          RC_ASSERT(last < chunk.parameters.front());
          const int64_t end =
              layout->place(last).offset +
              RoundUp(model.parameters[last.value].elements, kTileElements);
          RC_ASSERT(end + first.elements > layout->chunk_elements);
        }
        open = &chunk;
      }
    }
  }));
}

TEST(ChunkLayoutProperty, SearchGivesTheLayoutOfTheSizeItFound) {
  EXPECT_TRUE(rc::check([] {
    RandomModel model = DrawModel();
    model.options.chunk_bytes = 0;
    const auto best = MakeChunkLayout(model.parameters, model.options);
    RC_ASSERT(best.ok());
    // The same layout comes from asking for its size.
    model.options.chunk_bytes =
        best->chunk_elements * SizeOf(model.options.dtype);
    const auto same = MakeChunkLayout(model.parameters, model.options);
    RC_ASSERT(same.ok());
    RC_ASSERT(same->places == best->places);
    RC_ASSERT(same->total_elements == best->total_elements);
  }));
}

}  // namespace
}  // namespace castor
