#include "runtime/cluster/role_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

// The assignment as "chief HOST; ps HOST ...; workers HOST ...", or the error.
std::string Assigned(const std::string& host_file, int workers, int servers) {
  const auto hosts = ParseHostFile(host_file, "hosts").value();
  const auto assignment = AssignRoles(hosts, workers, servers);
  if (!assignment.ok()) return std::string(assignment.status().message());
  const auto names = [&](const std::vector<int>& indices) {
    return absl::StrJoin(indices, " ", [&](std::string* out, int i) { absl::StrAppend(out, hosts[i].host); });
  };
  return absl::StrCat("chief ", hosts[assignment->chief].host, "; ps ", names(assignment->servers),
                      "; workers ", names(assignment->workers));
}

TEST(RoleAssignmentTest, HostsWithoutRolesGetRolesByTheirOrderInTheHostFile) {
  const std::string cluster = "master\ns[1-8]";
  EXPECT_EQ(Assigned(cluster, 6, 2), "chief master; ps s7 s8; workers s1 s2 s3 s4 s5 s6");
  EXPECT_EQ(Assigned(cluster, 9, 0), "chief master; ps ; workers master s1 s2 s3 s4 s5 s6 s7 s8");
  EXPECT_EQ(Assigned(cluster, 2, 0), "chief master; ps ; workers s1 s2");
}

TEST(RoleAssignmentTest, RolesGivenInTheHostFileTakePrecedence) {
  EXPECT_EQ(Assigned("a role=worker slots=2\nb role=ps\nc role=chief\nd", 3, 1),
            "chief c; ps b; workers a a d");
  EXPECT_EQ(Assigned("a role=chief,worker\nb role=ps,worker slots=2", 2, 1), "chief a; ps b; workers a b");
}

TEST(RoleAssignmentTest, WorkersFillHostAfterHostAndServersAreRoundRobin) {
  EXPECT_EQ(Assigned("m\na slots=3\nb slots=3", 4, 2), "chief m; ps a b; workers a a b b");
  EXPECT_EQ(Assigned("one slots=5", 3, 2), "chief one; ps one one; workers one one one");
}

TEST(RoleAssignmentTest, ErrorSaysHowManySlotsAreMissing) {
  EXPECT_THAT(Assigned("one slots=4", 3, 2), HasSubstr("the job has 3 workers and 2 servers, and the host "
                                                       "file has slots for 2 of the workers: 1 missing"));
  EXPECT_THAT(Assigned("m\na\nb", 5, 0),
              HasSubstr("the job has 5 workers, and the host file has slots for 3: 2 missing"));
  EXPECT_THAT(Assigned("m role=chief\na role=worker slots=9", 2, 1),
              HasSubstr("the job has 1 server, and the host file has slots for 0: 1 missing"));
}

}  // namespace
}  // namespace tethys
