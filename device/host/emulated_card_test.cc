#include "device/host/emulated_card.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "device/host/host_device.h"

namespace castor {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

class EmulatedCardTest : public ::testing::Test {
 protected:
  EmulatedCardTest()
      : folder_(std::string(testing::TempDir()) + "/card-" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<EmulatedCard> Open() {
    auto card = EmulatedCard::Open(64 * kMiB, folder_);
    EXPECT_TRUE(card.ok()) << card.status();
    return *std::move(card);
  }
  static int64_t Free(const EmulatedCard& card) {
    const auto room = card.Room();
    EXPECT_TRUE(room.ok()) << room.status();
    return room->free_bytes;
  }
  void Make(const std::string& name, int64_t bytes) const {
    std::ofstream(folder_ + "/" + name).flush();
    std::filesystem::resize_file(folder_ + "/" + name, bytes);
  }

  const std::string folder_;
};

TEST_F(EmulatedCardTest, HasWhatOthersLeave) {
  const auto card = Open();
  EXPECT_EQ(Free(*card), 64 * kMiB);
  Make("another", 20 * kMiB);
  Make(".hidden", 20 * kMiB);
  std::filesystem::create_directory(folder_ + "/folder");
  EXPECT_EQ(Free(*card), 44 * kMiB);
  ASSERT_TRUE(card->Take(40 * kMiB).ok());
  EXPECT_EQ(Free(*card), 4 * kMiB);
  const absl::Status more = card->Take(45 * kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted(more)) << more;
  EXPECT_EQ(Free(*card), 4 * kMiB);
  // Others may take more than there is: less is always given.
  Make("another", 100 * kMiB);
  EXPECT_LT(Free(*card), 0);
  EXPECT_TRUE(card->Take(30 * kMiB).ok());
  std::filesystem::remove(folder_ + "/another");
  EXPECT_EQ(Free(*card), 34 * kMiB);
}

TEST_F(EmulatedCardTest, IsSharedByDevices) {
  const HostDeviceOptions options = {
      .memory_bytes = 40 * kMiB,
      .most_memory_bytes = 64 * kMiB,
      .card = {.bytes = 64 * kMiB, .folder = folder_}};
  auto first = HostDevice::Create(options);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsResourceExhausted(HostDevice::Create(options).status()));
  ASSERT_TRUE((*first)->Resize(20 * kMiB).ok());
  auto second = HostDevice::Create(options);
  ASSERT_TRUE(second.ok()) << second.status();
  const auto room = (*first)->Room();
  ASSERT_TRUE(room.ok()) << room.status();
  EXPECT_EQ(room->free_bytes, 4 * kMiB);
  EXPECT_EQ(room->total_bytes, 64 * kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted((*first)->Resize(25 * kMiB)));
  EXPECT_EQ((*first)->memory_bytes(), 20 * kMiB);
  EXPECT_TRUE((*first)->Resize(24 * kMiB).ok());
  second->reset();
  EXPECT_EQ((*first)->Room()->free_bytes, 40 * kMiB);
}

TEST_F(EmulatedCardTest, ForgetsThoseThatWereKilled) {
  const auto card = Open();
  // Nobody has it locked.
  Make("castor-1-1", 20 * kMiB);
  EXPECT_EQ(Free(*card), 64 * kMiB);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/castor-1-1"));
}

TEST_F(EmulatedCardTest, RefusesWhatIsNoFolder) {
  std::ofstream(folder_).flush();
  const auto card = EmulatedCard::Open(kMiB, folder_);
  EXPECT_TRUE(absl::IsInvalidArgument(card.status())) << card.status();
}

}  // namespace
}  // namespace castor
