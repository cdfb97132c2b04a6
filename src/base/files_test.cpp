#include "base/files.h"

#include <filesystem>
#include <memory>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"

namespace passnet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string scratch_folder() {
  std::string path = testing::TempDir() + "passnet-files-XXXXXX";
  return ::mkdtemp(path.data());
}

/// The same promises of the disk, of the disk with journalled exchange, and of the fake.
class FilesTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("memory")) {
      root_ = "/scratch";
      files_ = &memory_;
      ASSERT_TRUE(memory_.make_directory(root_).ok());
    } else {
      root_ = scratch_folder();
      files_ = GetParam() == std::string("journal") ? &real_files_with_journal() : &real_files();
    }
  }
  void TearDown() override {
    if (files_ != &memory_) std::filesystem::remove_all(root_);
  }
  std::string at(std::string_view path) const { return join_path(root_, path); }

  MemoryFiles memory_;
  FileSystem* files_ = nullptr;
  std::string root_;
};

TEST_P(FilesTest, WritesReplacesAndReads) {
  ASSERT_TRUE(files_->write(at("a.txt"), "one").ok());
  ASSERT_TRUE(files_->write(at("a.txt"), std::string("two\0!", 5)).ok());
  EXPECT_EQ(files_->read(at("a.txt")).value(), std::string("two\0!", 5));
  ASSERT_TRUE(files_->append(at("a.txt"), "+").ok());
  ASSERT_TRUE(files_->append(at("b.txt"), "new").ok());
  EXPECT_EQ(files_->read(at("a.txt"))->size(), 6u);
  EXPECT_EQ(*files_->read(at("b.txt")), "new");
  const auto entries = files_->list(root_).value();
  ASSERT_EQ(entries.size(), 2u) << "a temporary file was left";
}

TEST_P(FilesTest, ErrorsHaveTheirCodesAndNameThePath) {
  EXPECT_EQ(files_->read(at("none")).error().code, "file.missing");
  EXPECT_THAT(files_->read(at("none")).error().message, HasSubstr(at("none")));
  EXPECT_EQ(files_->read(root_).error().code, "file.not_file");
  EXPECT_EQ(files_->write(at("no/such/a"), "x").error().code, "file.missing");
  EXPECT_EQ(files_->write(root_, "x").error().code, "file.not_file");
  EXPECT_EQ(files_->list(at("none")).error().code, "file.missing");
  ASSERT_TRUE(files_->write(at("f"), "12345").ok());
  EXPECT_EQ(files_->list(at("f")).error().code, "file.not_directory");
  EXPECT_EQ(files_->read(at("f"), 4).error().code, "file.too_large");
  EXPECT_EQ(*files_->read(at("f"), 5), "12345");
  EXPECT_EQ(files_->make_directory(at("f")).error().code, "file.exists");
}

TEST_P(FilesTest, FoldersAreMadeWithParentsListedSortedAndRemovedWhole) {
  ASSERT_TRUE(files_->make_directory(at("x/y/z")).ok());
  ASSERT_TRUE(files_->make_directory(at("x/y/z")).ok());
  ASSERT_TRUE(files_->write(at("x/b"), "").ok());
  ASSERT_TRUE(files_->write(at("x/y/z/c"), "").ok());
  const auto entries = files_->list(at("x")).value();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "b");
  EXPECT_EQ(entries[0].info.type, FileType::kFile);
  EXPECT_EQ(entries[1].info.type, FileType::kDirectory);
  EXPECT_THAT(files_->list_recursive(root_).value(), ElementsAre("x/b", "x/y/z/c"));
  ASSERT_TRUE(files_->remove_all(at("x")).ok());
  EXPECT_FALSE(files_->exists(at("x")));
  EXPECT_TRUE(files_->remove_all(at("x")).ok());
}

TEST_P(FilesTest, RenameReplacesFilesButNoFolders) {
  ASSERT_TRUE(files_->write(at("a"), "1").ok());
  ASSERT_TRUE(files_->write(at("b"), "2").ok());
  ASSERT_TRUE(files_->rename(at("a"), at("b")).ok());
  EXPECT_EQ(*files_->read(at("b")), "1");
  EXPECT_FALSE(files_->exists(at("a")));
  ASSERT_TRUE(files_->make_directory(at("d")).ok());
  ASSERT_TRUE(files_->write(at("d/x"), "").ok());
  EXPECT_FALSE(files_->rename(at("b"), at("d")).ok());
  EXPECT_EQ(files_->rename(at("none"), at("c")).error().code, "file.missing");
}

TEST_P(FilesTest, ExchangeSwapsWholeFolders) {
  for (const char* name : {"a", "b"}) {
    ASSERT_TRUE(files_->make_directory(at(name)).ok());
    ASSERT_TRUE(files_->write(join_path(at(name), name), name).ok());
  }
  ASSERT_TRUE(files_->exchange_directories(at("a"), at("b")).ok());
  EXPECT_THAT(files_->list_recursive(root_).value(), ElementsAre("a/b", "b/a"));
  EXPECT_EQ(files_->exchange_directories(at("a"), at("none")).error().code, "file.missing");
  EXPECT_EQ(files_->exchange_directories(at("a/b"), at("b")).error().code, "file.not_directory");
  EXPECT_THAT(files_->list_recursive(root_).value(), ElementsAre("a/b", "b/a"));
}

TEST_P(FilesTest, CopyTakesTheWholeTree) {
  ASSERT_TRUE(files_->make_directory(at("from/sub")).ok());
  ASSERT_TRUE(files_->write(at("from/a"), "1").ok());
  ASSERT_TRUE(files_->write(at("from/sub/b"), "2").ok());
  ASSERT_TRUE(files_->copy_directory(at("from"), at("to")).ok());
  EXPECT_THAT(files_->list_recursive(at("to")).value(), ElementsAre("a", "sub/b"));
  EXPECT_EQ(*files_->read(at("to/sub/b")), "2");
}

INSTANTIATE_TEST_SUITE_P(All, FilesTest, testing::Values("real", "journal", "memory"),
                         [](const auto& param) { return std::string(param.param); });

/// What a crash after each step of a journalled exchange leaves, and what recovery makes of it.
TEST(JournalledExchange, IsEndedFromWhateverPointItWasInterruptedAt) {
  auto& files = real_files_with_journal();
  for (int steps = 0; steps <= 3; ++steps) {
    const std::string root = scratch_folder();
    const std::string a = root + "/a";
    const std::string b = root + "/b";
    for (const auto& path : {a, b}) {
      ASSERT_TRUE(files.make_directory(path).ok());
      ASSERT_TRUE(files.write(path + "/was", base_name(path)).ok());
    }
    ASSERT_TRUE(files.write(a + ".exchange", b + "\n").ok());
    if (steps > 0) {
      ASSERT_TRUE(files.rename(a, a + ".exchange.old").ok());
    }
    if (steps > 1) {
      ASSERT_TRUE(files.rename(b, a).ok());
    }
    if (steps > 2) {
      ASSERT_TRUE(files.rename(a + ".exchange.old", b).ok());
    }
    ASSERT_TRUE(files.recover_exchange(a).ok()) << steps;
    EXPECT_EQ(*files.read(a + "/was"), steps == 0 ? "a" : "b") << steps;
    EXPECT_EQ(*files.read(b + "/was"), steps == 0 ? "b" : "a") << steps;
    EXPECT_THAT(files.list_recursive(root).value(), ElementsAre("a/was", "b/was"));
    std::filesystem::remove_all(root);
  }
}

class RealFilesTest : public testing::Test {
 protected:
  void SetUp() override { root_ = scratch_folder(); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string root_;
};

TEST_F(RealFilesTest, LoopsOfLinksEndNothing) {
  std::filesystem::create_directory_symlink(root_, root_ + "/again");
  std::filesystem::create_symlink(root_ + "/loop2", root_ + "/loop1");
  std::filesystem::create_symlink(root_ + "/loop1", root_ + "/loop2");
  ASSERT_TRUE(real_files().write(root_ + "/a", "x").ok());
  EXPECT_THAT(real_files().list_recursive(root_).value(), ElementsAre("a"));
  EXPECT_EQ(real_files().read(root_ + "/loop1").error().code, "file.loop");
  EXPECT_TRUE(real_files().stat(root_ + "/again")->is_link);
}

TEST_F(RealFilesTest, RemovingALinkLeavesItsTarget) {
  ASSERT_TRUE(real_files().make_directory(root_ + "/target").ok());
  ASSERT_TRUE(real_files().write(root_ + "/target/kept", "x").ok());
  ASSERT_TRUE(real_files().make_directory(root_ + "/dir").ok());
  std::filesystem::create_directory_symlink(root_ + "/target", root_ + "/dir/link");
  ASSERT_TRUE(real_files().remove_all(root_ + "/dir").ok());
  EXPECT_EQ(*real_files().read(root_ + "/target/kept"), "x");
}

TEST_F(RealFilesTest, DevicesAndPipesAreRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo((root_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(real_files().read(root_ + "/pipe").error().code, "file.not_file");
  EXPECT_EQ(real_files().read("/dev/zero").error().code, "file.not_file");
}

TEST_F(RealFilesTest, WritingKeepsTheModeOfTheFile) {
  ASSERT_TRUE(real_files().write(root_ + "/a", "x").ok());
  ASSERT_EQ(::chmod((root_ + "/a").c_str(), 0640), 0);
  ASSERT_TRUE(real_files().write(root_ + "/a", "y").ok());
  struct stat status {};
  ASSERT_EQ(::stat((root_ + "/a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

TEST(MemoryFiles, FailsOnceWhereTheTestAsks) {
  MemoryFiles files(std::map<std::string, std::string>{{"/a/b", "x"}});
  files.fail_next("/a/b", "file.full");
  EXPECT_EQ(files.write("/a/b", "y").error().code, "file.full");
  EXPECT_EQ(*files.read("/a/b"), "x");
}

TEST(Paths, JoinNameFolderNormalize) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("a", "/b"), "/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(base_name("a/b/"), "b");
  EXPECT_EQ(base_name("/"), "/");
  EXPECT_EQ(dir_name("a/b/"), "a");
  EXPECT_EQ(dir_name("a"), ".");
  EXPECT_EQ(dir_name("/a"), "/");
  EXPECT_EQ(normalize_path("a/./b//../c/"), "a/c");
  EXPECT_EQ(normalize_path("../a/../.."), "../..");
  EXPECT_EQ(normalize_path("/../a"), "/a");
  EXPECT_EQ(normalize_path("a/.."), ".");
}

}  // namespace
}  // namespace passnet
