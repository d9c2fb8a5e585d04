# The Debian packages. `once`: the gateway, its manual, completion, units and docs. Every file of it is installed here, in
# the component `gateway`; maintainer scripts are in packaging/debian. `libonce-dev`: the C interface (install.cmake).
#   cmake --preset release && cmake --build --preset release --target package
find_program(GZIP_PROGRAM gzip REQUIRED)
string(TIMESTAMP once_package_date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, if it is set

# What the commands say of themselves. A stamp stands for the pages, whose names only the commands know.
set(once_manual ${PROJECT_BINARY_DIR}/manual)
add_custom_command(OUTPUT ${once_manual}/stamp
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${once_manual}
  COMMAND ${PROJECT_SOURCE_DIR}/scripts/manual $<TARGET_FILE:once> ${once_manual}/man1
  COMMAND ${GZIP_PROGRAM} -9nr ${once_manual}/man1
  COMMAND once completion bash > ${once_manual}/once.bash
  COMMAND once config --schema > ${once_manual}/once.schema.json
  COMMAND ${CMAKE_COMMAND} -E touch ${once_manual}/stamp
  DEPENDS once ${PROJECT_SOURCE_DIR}/scripts/manual VERBATIM)

configure_file(${PROJECT_SOURCE_DIR}/packaging/debian/changelog.in ${PROJECT_BINARY_DIR}/debian/changelog.Debian @ONLY)
set(once_changelogs ${PROJECT_BINARY_DIR}/debian/changelog.Debian.gz ${PROJECT_BINARY_DIR}/debian/changelog.gz)
add_custom_command(OUTPUT ${once_changelogs}
  COMMAND ${GZIP_PROGRAM} -9nc ${PROJECT_BINARY_DIR}/debian/changelog.Debian > ${PROJECT_BINARY_DIR}/debian/changelog.Debian.gz
  COMMAND ${GZIP_PROGRAM} -9nc ${PROJECT_SOURCE_DIR}/CHANGELOG.md > ${PROJECT_BINARY_DIR}/debian/changelog.gz
  DEPENDS ${PROJECT_BINARY_DIR}/debian/changelog.Debian ${PROJECT_SOURCE_DIR}/CHANGELOG.md VERBATIM)
# Only an optimised binary is packaged; the others need not write a manual whenever they are built.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_custom_target(package_files ALL DEPENDS ${once_manual}/stamp ${once_changelogs})
endif()

set(packaging ${PROJECT_SOURCE_DIR}/packaging)
install(TARGETS once RUNTIME DESTINATION bin COMPONENT gateway)
install(FILES ${packaging}/once.yaml DESTINATION /etc/once COMPONENT gateway)
install(DIRECTORY ${packaging}/systemd/ DESTINATION /lib/systemd/system COMPONENT gateway FILES_MATCHING PATTERN once*)
install(FILES ${packaging}/logrotate/once DESTINATION /etc/logrotate.d COMPONENT gateway)
install(DIRECTORY ${once_manual}/man1 DESTINATION share/man COMPONENT gateway)
install(FILES ${once_manual}/once.bash DESTINATION share/bash-completion/completions RENAME once COMPONENT gateway)
install(FILES ${once_manual}/once.schema.json DESTINATION share/once COMPONENT gateway)
install(FILES ${packaging}/debian/copyright ${once_changelogs} ${PROJECT_SOURCE_DIR}/README.md
  DESTINATION share/doc/once COMPONENT gateway)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION share/doc/once COMPONENT gateway FILES_MATCHING PATTERN *.md)
install(DIRECTORY ${packaging}/kubernetes DESTINATION share/doc/once/examples COMPONENT gateway)
# Alert rules and dashboards, as far as there are any.
install(DIRECTORY ${packaging}/prometheus ${packaging}/grafana DESTINATION share/once COMPONENT gateway OPTIONAL)
install(FILES ${packaging}/debian/lintian-overrides DESTINATION share/lintian/overrides RENAME once COMPONENT gateway)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME once)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The authors of Once <once@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL gateway capi)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_GATEWAY_PACKAGE_NAME once)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_GATEWAY_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_GATEWAY_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_GATEWAY_PACKAGE_DEPENDS "adduser")
set(CPACK_DEBIAN_GATEWAY_PACKAGE_RECOMMENDS "ca-certificates")
# CPack indents it.
set(CPACK_COMPONENT_GATEWAY_DESCRIPTION "gateway that makes any HTTP API safe to retry
Once stands in front of an HTTP backend. A request with an idempotency key is
executed once; every retry gets the same answer. Answers are kept in an
embedded journal, PostgreSQL, MySQL or Redis.
.
The package brings systemd units that are not enabled, a configuration in
/etc/once, manual pages and completion.")
# The library is used by programs that are built for it, so it comes with its header in one package.
set(CPACK_DEBIAN_CAPI_PACKAGE_NAME libonce-dev)
set(CPACK_DEBIAN_CAPI_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_CAPI_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_CAPI_DESCRIPTION "idempotency keys inside a process
The engine of Once as a shared library with a C interface: a program begins a
request, runs its handler if the key is new, and gets the recorded response if
it is not. Answers are kept in an embedded journal, PostgreSQL, MySQL or Redis.
.
The package has the library, its header and a pkg-config file.")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_GATEWAY_PACKAGE_CONTROL_EXTRA
  ${packaging}/debian/postinst ${packaging}/debian/prerm ${packaging}/debian/postrm ${packaging}/debian/conffiles)
include(CPack)
