# The library for programs outside of Once: headers, static libraries, a CMake package and pkg-config files.
#   cmake --install build/release --component library --prefix /usr/local
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(once_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/once)

# What a consumer names is once::guard and once::client; the others come with them.
foreach(layer base core client store guard)
  set_target_properties(once_${layer} PROPERTIES EXPORT_NAME ${layer})
  target_compile_features(once_${layer} PUBLIC cxx_std_23)
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND ONCE_LTO)
    # Machine code beside the bitcode: a consumer's linker need not be LLVM's.
    target_compile_options(once_${layer} PRIVATE -ffat-lto-objects)
  endif()
endforeach()
install(TARGETS once_base once_core once_client once_store once_guard EXPORT once
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT once NAMESPACE once:: FILE once-targets.cmake DESTINATION ${once_package_folder} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/once DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/once-config.cmake.in ${PROJECT_BINARY_DIR}/once-config.cmake
  INSTALL_DESTINATION ${once_package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/once-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/once-config.cmake ${PROJECT_BINARY_DIR}/once-config-version.cmake
  DESTINATION ${once_package_folder} COMPONENT library)

# once-guard and once-client by themselves, and once for both.
foreach(package once-guard once-client once)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
endforeach()

# The C interface: the shared library, its header and a pkg-config file. Also a Debian package (package.cmake).
#   cmake --install build/release --component capi --prefix /usr/local
set(once_c_folder lib)
set(once_c_up ../..)
if(CMAKE_LIBRARY_ARCHITECTURE)
  set(once_c_folder lib/${CMAKE_LIBRARY_ARCHITECTURE})
  set(once_c_up ../../..)
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/libonce.pc.in ${PROJECT_BINARY_DIR}/libonce.pc @ONLY)
install(TARGETS once_c LIBRARY DESTINATION ${once_c_folder} COMPONENT capi)
install(FILES ${PROJECT_SOURCE_DIR}/include/once/once.h DESTINATION include/once COMPONENT capi)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/debian/copyright DESTINATION share/doc/libonce-dev COMPONENT capi)
install(FILES ${PROJECT_BINARY_DIR}/libonce.pc DESTINATION ${once_c_folder}/pkgconfig COMPONENT capi)
