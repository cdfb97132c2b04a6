#include "worker/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/files.h"
#include "base/json.h"

namespace passnet {
namespace {

std::string from_hex(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return out;
}

Json fixture() {
  const auto text = real_files().read(PASSNET_SOURCE_DIR "/tests/fixtures/worker_frames.json");
  return parse_json(text.value()).value();
}

TEST(WorkerFrames, FixtureIsOfThisProtocol) {
  EXPECT_EQ(fixture()["version"], kWorkerProtocolVersion);
  EXPECT_EQ(fixture()["max_frame_bytes"], kMaxFrameBytes);
}

TEST(WorkerFrames, GoodMessagesAreTheseBytesAndBack) {
  const Json frames = fixture();
  for (const auto& good : frames["good"]) {
    const std::string frame = from_hex(good["frame"].get<std::string>());
    EXPECT_EQ(encode_frame(good["message"]).value(), frame) << good["name"];
    std::string_view bytes = frame;
    EXPECT_EQ(decode_frame(bytes).value(), good["message"]) << good["name"];
    EXPECT_TRUE(bytes.empty());
  }
}

TEST(WorkerFrames, BadBytesHaveTheirCodes) {
  const Json frames = fixture();
  for (const auto& bad : frames["bad"]) {
    const std::string frame = from_hex(bad["frame"].get<std::string>());
    std::string_view bytes = frame;
    const auto decoded = decode_frame(bytes);
    ASSERT_FALSE(decoded.ok()) << bad["name"];
    EXPECT_EQ(decoded.error().code, bad["code"].get<std::string>()) << bad["name"];
    EXPECT_EQ(bytes.size(), frame.size());
  }
}

TEST(WorkerFrames, SeveralInARowAreReadOneByOne) {
  const Json first = {{"v", 1}, {"id", 1}};
  const Json second = {{"v", 1}, {"id", 2}};
  const std::string both = *encode_frame(first) + *encode_frame(second);
  std::string_view bytes = both;
  EXPECT_EQ(*decode_frame(bytes), first);
  EXPECT_EQ(*decode_frame(bytes), second);
  EXPECT_EQ(decode_frame(bytes).error().code, "frame.truncated");
}

TEST(WorkerFrames, AnyBytesGiveAMessageOrAnError) {
  EXPECT_TRUE(rc::check([](const std::string& noise) {
    std::string bytes = {0, 0, 0, static_cast<char>(noise.size() & 0x7F)};
    bytes += noise;
    std::string_view rest = bytes;
    const auto decoded = decode_frame(rest);
    const bool sound = decoded.ok() ? decoded->is_object() : decoded.error().code.starts_with("frame.");
    RC_ASSERT(sound);
  }));
}

TEST(WorkerCommands, TheTableNamesEachOnceAndGivesItTime) {
  for (const auto& row : worker_commands()) {
    EXPECT_EQ(find_worker_command(row.name), &row) << row.name;
    EXPECT_GE(row.deadline, Duration(std::chrono::seconds(10)));
    EXPECT_FALSE(row.summary.empty());
  }
  EXPECT_EQ(find_worker_command("dance"), nullptr);
}

}  // namespace
}  // namespace passnet
