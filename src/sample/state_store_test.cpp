#include "sample/state_store.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace passnet {
namespace {

class StateStoreTest : public ::testing::Test {
 protected:
  StateStore store() {
    auto opened = StateStore::open(files_, clock_, "sample");
    EXPECT_TRUE(opened.ok());
    return std::move(opened).value();
  }
  MemoryFiles files_;
  FakeClock clock_;
};

const StateFiles kA = {{"A.py", "a = 1\n"}, {"_shared_kernels.py", "k = 1\n"}};
const StateFiles kB = {{"B.py", "b = 1\n"}};

TEST_F(StateStoreTest, InstallKeepsWhatWasFoundAndTheMarker) {
  files_.put("sample/pass_dir/.ignore", "x");
  files_.put("sample/pass_dir/theirs.py", "old");
  files_.put("sample/pass_dir/__pycache__/theirs.pyc", "compiled");
  StateStore s = store();
  const auto hash = s.install(kA);
  ASSERT_TRUE(hash.ok());
  EXPECT_EQ(*s.current(), kA);
  EXPECT_EQ(*files_.read("sample/pass_dir/.ignore"), "x");
  const auto states = s.list();
  ASSERT_TRUE(states.ok());
  ASSERT_EQ(states->size(), 2u);
  for (const StateInfo& state : *states) EXPECT_EQ(state.current, state.hash == *hash);

  ASSERT_TRUE(s.restore("found").ok());
  EXPECT_EQ(*files_.read("sample/pass_dir/theirs.py"), "old");
  EXPECT_EQ(*files_.read("sample/pass_dir/__pycache__/theirs.pyc"), "compiled");
  EXPECT_FALSE(files_.exists("sample/pass_dir/A.py"));
}

TEST_F(StateStoreTest, RestoreByABeginningOfTheName) {
  StateStore s = store();
  const std::string a = *s.install(kA);
  clock_.advance(std::chrono::seconds(5));
  const std::string b = *s.install(kB);
  ASSERT_NE(a, b);
  ASSERT_TRUE(s.restore(a.substr(0, 6)).ok());
  EXPECT_EQ(*s.current(), kA);
  const auto unknown = s.restore("zz");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, "state.unknown");
  EXPECT_NE(unknown.error().hint.find(a), std::string::npos);
  EXPECT_EQ(s.restore("").error().code, "state.ambiguous");
  EXPECT_EQ(*s.current(), kA) << "a refused restore changes nothing";
}

TEST_F(StateStoreTest, AFailedExchangeLeavesTheOldState) {
  StateStore s = store();
  ASSERT_TRUE(s.install(kA).ok());
  files_.fail_next("sample/.passnet/staging/B.py", "file.full");
  EXPECT_EQ(s.install(kB).error().code, "file.full");
  EXPECT_EQ(*s.current(), kA);
}

TEST_F(StateStoreTest, AnInterruptedKeepIsWrittenAgain) {
  StateStore s = store();
  const std::string hash = state_hash(kA);
  files_.put("sample/.passnet/history/" + hash + "/files/A.py", "half");
  ASSERT_TRUE(s.keep(kA).ok());
  EXPECT_EQ(*s.read_state(hash), kA);
}

TEST_F(StateStoreTest, RecordsAreReadBackAndDamagedOnesIgnored) {
  StateStore s = store();
  const std::string hash = *s.install(kA);
  ASSERT_TRUE(s.put_record(hash, "check", Json{{"status", "green"}}).ok());
  EXPECT_EQ((*s.get_record(hash, "check"))["status"], "green");
  files_.put("sample/.passnet/history/" + hash + "/check.json", "{");
  EXPECT_FALSE(s.get_record(hash, "check").has_value());
}

TEST(StateHash, CompiledPythonAndTheMarkerDoNotCount) {
  StateFiles with = kA;
  with["__pycache__/A.cpython-312.pyc"] = "x";
  with[".ignore"] = "";
  EXPECT_EQ(state_hash(with), state_hash(kA));
  EXPECT_NE(state_hash(kA), state_hash(kB));
}

}  // namespace
}  // namespace passnet
