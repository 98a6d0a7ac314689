#include "cli/output/out_of_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cli/output/exit_code.h"

namespace castor::cli {
namespace {

// More than any address space.
constexpr size_t kTooMuch = size_t{1} << 60;

// Without it the compiler leaves out what nobody uses.
void Use(void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

void Allocate() { Use(::operator new(kTooMuch)); }

void AllocateAligned() { Use(::operator new(kTooMuch, std::align_val_t(64))); }

void AllocateOnAThread() { std::thread(Allocate).join(); }

// noexcept, or the death test itself would handle what is thrown.
void RunAfter(void (*what)()) noexcept {
  TellWhenOutOfMemory();
  what();
}

TEST(OutOfMemoryDeathTest, EndsWithOneLineThatSaysHowMuchWasAskedFor) {
  constexpr char kLine[] =
      "^castor: out of host memory: the system gives no 1152921504606846976 "
      "bytes more;[^\n]*\n$";
  for (void (*what)() : {Allocate, AllocateAligned, AllocateOnAThread}) {
    EXPECT_EXIT(RunAfter(what), testing::ExitedWithCode(kFailure), kLine);
  }
}

TEST(OutOfMemoryDeathTest, MoreThanAContainerCanHoldIsTheSame) {
  const auto grow = [] {
    std::vector<char> bytes;
    bytes.reserve(~size_t{0});
  };
  EXPECT_EXIT(RunAfter(grow), testing::ExitedWithCode(kFailure),
              "^castor: out of host memory: more was asked for[^\n]*\n$");
}

TEST(OutOfMemoryDeathTest, AnotherExceptionIsNamedAndLeavesItsCore) {
  const auto fail = [] { throw std::runtime_error("this or that"); };
  EXPECT_EXIT(RunAfter(fail), testing::KilledBySignal(SIGABRT),
              "^castor: internal error: this or that\n$");
}

TEST(OutOfMemory, WhoHandlesItIsNotEnded) {
  TellWhenOutOfMemory();
  EXPECT_THROW(Allocate(), std::bad_alloc);
  EXPECT_EQ(::operator new(kTooMuch, std::nothrow), nullptr);
}

TEST(OutOfMemory, GivesMemoryOfEverySizeAndAlignment) {
  for (size_t bytes : {0, 1, 7, 64, 4096, 1 << 20}) {
    void* const plain = ::operator new(bytes);
    ASSERT_NE(plain, nullptr);
    ::operator delete(plain);
    for (size_t alignment : {32, 64, 4096}) {
      void* const aligned = ::operator new(bytes, std::align_val_t(alignment));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % alignment, 0u);
      std::fill_n(static_cast<char*>(aligned), bytes, 'x');
      ::operator delete(aligned, std::align_val_t(alignment));
    }
  }
}

}  // namespace
}  // namespace castor::cli
