# Installs the library of a build into a temporary prefix, builds the consumer against it by CMake and by pkg-config, and
# runs it.
#   cmake -D BUILD=… -D WORK=… -D SOURCE=… -D COMPILER=… -D FLAGS=… -D LINKER_FLAGS=… -P consumer_test.cmake
if(NOT EXISTS ${BUILD}/CMakeCache.txt)
  message("SKIPPED, the library was not tested: ${BUILD} is not there")
  return()
endif()
file(REMOVE_RECURSE ${WORK})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --build ${BUILD} --target once_guard once_gate once_postgres once_mysql once_redis once_client)
run(${CMAKE_COMMAND} --install ${BUILD} --component library --prefix ${WORK}/first)
# A package is built in one place and unpacked in another.
file(RENAME ${WORK}/first ${WORK}/prefix)

file(GLOB_RECURSE headers ${WORK}/prefix/include/*)
foreach(header ${headers})
  file(READ ${header} text)
  if(text MATCHES "#include (\"|<(boost|fmt|openssl|curl|base|core|store)/)")
    message(FATAL_ERROR "${header} shows what is ours: ${CMAKE_MATCH_0}")
  endif()
endforeach()

# by_cmake(NAME PARTS ARGUMENTS …): the programs that use these parts alone.
function(by_cmake name parts)
  run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/${name} -G Ninja "-DPARTS=${parts}" -D CMAKE_CXX_COMPILER=${COMPILER}
    -D CMAKE_PREFIX_PATH=${WORK}/prefix "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DCMAKE_EXE_LINKER_FLAGS=${LINKER_FLAGS}" ${ARGN})
  run(${CMAKE_COMMAND} --build ${WORK}/${name})
endfunction()

by_cmake(servers "guard postgres mysql redis")
run(${WORK}/servers/servers)
# On a machine that has not what other parts need.
set(ENV{PKG_CONFIG_LIBDIR} ${WORK}/nothing)  # no libpq, libmariadb or hiredis
by_cmake(guard guard -D CMAKE_DISABLE_FIND_PACKAGE_CURL=ON)
run(${WORK}/guard/consumer)
run(${WORK}/guard/transaction)
run(${WORK}/guard/double)
by_cmake(client client)
run(${WORK}/client/sender)
file(MAKE_DIRECTORY ${WORK}/data)
by_cmake(gate gate -D CMAKE_DISABLE_FIND_PACKAGE_CURL=ON)
run(${WORK}/gate/gate ${WORK}/data)
unset(ENV{PKG_CONFIG_LIBDIR})

# by_pkg_config(PACKAGE SOURCE FLAGS …): built and run.
file(GLOB_RECURSE package ${WORK}/prefix/*/once.pc)
get_filename_component(folder ${package} DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${folder})
function(by_pkg_config package source)
  execute_process(COMMAND pkg-config --cflags --libs ${package}
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(arguments UNIX_COMMAND "${FLAGS} ${SOURCE}/${source} -o ${WORK}/${package} ${found} ${LINKER_FLAGS}")
  run(${COMPILER} -std=c++23 ${ARGN} ${arguments})
  run(${WORK}/${package} ${arguments_of_${package}})
endfunction()

execute_process(COMMAND pkg-config --modversion once OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE)
by_pkg_config(once-guard main.cpp)
by_pkg_config(once-client sender.cpp "-DPACKAGE_VERSION=\"${version}\"")
by_pkg_config(once servers.cpp)
set(arguments_of_once-gate ${WORK}/data)
by_pkg_config(once-gate ../gate/sample.cpp)
